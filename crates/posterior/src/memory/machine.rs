//! What the machine has, or what its control groups (versions 1 and 2) leave of it.

use std::path::Path;
use std::sync::OnceLock;

/// Where the system does not tell.
const UNKNOWN: u64 = 8 << 30;

/// Three quarters of the machine's memory: the rest is for the system, for other programs, and for what estimates leave out.
pub(super) fn default_limit() -> u64 {
    static DEFAULT: OnceLock<u64> = OnceLock::new();
    *DEFAULT.get_or_init(|| memory(Path::new("/")).unwrap_or(UNKNOWN) / 4 * 3)
}

/// The least of what `/proc/meminfo` and the limits of all enclosing control groups say.
fn memory(root: &Path) -> Option<u64> {
    let text = |path: &str| std::fs::read_to_string(root.join(path)).ok();
    let number = |path: &str| text(path)?.trim().parse::<u64>().ok();
    let info = text("proc/meminfo").and_then(|t| {
        let line = t.lines().find_map(|l| l.strip_prefix("MemTotal:"))?.trim().strip_suffix("kB")?.trim().to_owned();
        line.parse::<u64>().ok()?.checked_mul(1024)
    });
    let mut found: Vec<u64> = info.into_iter().collect();
    // Lines are `0::/path` in version 2 and `4:memory:/path` in version 1; inside a container the path may be that of outside.
    for line in text("proc/self/cgroup").unwrap_or_default().lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (base, file) = match controllers {
            "" => ("sys/fs/cgroup", "memory.max"),
            c if c.split(',').any(|c| c == "memory") => ("sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => continue,
        };
        let mut folder = path.trim_matches('/');
        loop {
            found.extend(number(&format!("{base}/{folder}/{file}")).filter(|n| *n > 0));
            if folder.is_empty() {
                break;
            }
            folder = folder.rsplit_once('/').map_or("", |(outer, _)| outer);
        }
    }
    found.into_iter().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_narrowest_limit_counts() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        assert_eq!(memory(root.path()), None);
        put("proc/meminfo", "MemTotal:       16000000 kB\nMemFree: 1 kB\n");
        assert_eq!(memory(root.path()), Some(16_384_000_000));
        put("proc/self/cgroup", "5:cpu:/x\n4:memory:/a/b\n0::/c/d\n");
        put("sys/fs/cgroup/c/memory.max", "9000000000\n");
        put("sys/fs/cgroup/c/d/memory.max", "max\n");
        assert_eq!(memory(root.path()), Some(9_000_000_000));
        put("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
        put("sys/fs/cgroup/memory/memory.limit_in_bytes", "7000000000\n");
        assert_eq!(memory(root.path()), Some(7_000_000_000));
    }
}
