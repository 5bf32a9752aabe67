//! Typed options: one declaration gives a struct for Rust users and the table of settings for everything else.
//!
//! [`options!`](crate::options!) writes the struct, its defaults, the table and the way between struct and checked values; [`word_enum!`](crate::word_enum!)
//! writes the enum of a setting that takes one of several words. Keys are the names of fields, help texts are their documentation, so that neither
//! can differ between program, configuration and code, and a misspelt key does not compile.

use super::{Allowed, Default as Preset, Setting, Settings, Value};
use crate::error::Result;
use std::fmt::Debug;
use std::ops::Deref;

/// A struct of settings with a table derived from it; implemented by [`options!`](crate::options!).
pub trait Options: Clone + Debug + Default + Send + Sync + 'static {
    /// The table: a row for every field, in order.
    const SETTINGS: &'static [Setting];

    /// From checked settings. A field that they do not have keeps its default.
    fn read(settings: &Settings) -> Self;

    /// As `(name, value)` pairs, not checked.
    fn pairs(&self) -> Vec<(String, Value)>;
}

/// Options of a row of a table, which they name.
pub trait NamedOptions: Options {
    /// What a user writes.
    const NAME: &'static str;
}

/// The type of a field of [`Options`].
pub trait OptionValue: Copy {
    /// From a checked value; none where it is of another type.
    fn of_value(value: &Value) -> Option<Self>;

    /// As a value, not checked.
    fn to_value(self) -> Value;
}

impl OptionValue for bool {
    fn of_value(value: &Value) -> Option<bool> {
        match value {
            Value::Bool(v) => Some(*v),
            _ => None,
        }
    }
    fn to_value(self) -> Value {
        Value::Bool(self)
    }
}

impl OptionValue for usize {
    fn of_value(value: &Value) -> Option<usize> {
        match value {
            // A checked count is not negative; what a small machine cannot count to is the most it can.
            Value::Int(v) => Some(usize::try_from(*v).unwrap_or(if *v < 0 { 0 } else { usize::MAX })),
            _ => None,
        }
    }
    fn to_value(self) -> Value {
        Value::Int(i64::try_from(self).unwrap_or(i64::MAX))
    }
}

impl OptionValue for f64 {
    fn of_value(value: &Value) -> Option<f64> {
        match value {
            Value::Float(v) => Some(*v),
            Value::Int(v) => Some(*v as f64),
            _ => None,
        }
    }
    fn to_value(self) -> Value {
        Value::Float(self)
    }
}

/// Options whose values were checked, together with the settings they came from; reads as the options.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked<O> {
    options: O,
    settings: Settings,
}

impl<O: Options> Checked<O> {
    /// Checks every value; `owner` is named where one is out of range, as in [`Settings::resolve`].
    pub fn new(options: &O, owner: &str) -> Result<Checked<O>> {
        Ok(Settings::resolve(O::SETTINGS, &options.pairs(), owner)?.into())
    }

    /// Every value by its name.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
}

impl<O: Options> From<Settings> for Checked<O> {
    fn from(settings: Settings) -> Checked<O> {
        Checked { options: O::read(&settings), settings }
    }
}

impl<O> Deref for Checked<O> {
    type Target = O;

    fn deref(&self) -> &O {
        &self.options
    }
}

/// A documentation line as a help text: without the space that a comment begins with.
#[doc(hidden)]
pub const fn help_of(line: &'static str) -> &'static str {
    match line.as_bytes() {
        [b' ', rest @ ..] => match std::str::from_utf8(rest) {
            Ok(text) => text,
            Err(_) => line,
        },
        _ => line,
    }
}

/// Stops the compilation where a default is not among the values that its row allows.
#[doc(hidden)]
pub const fn verify(table: &[Setting]) {
    let mut i = 0;
    while i < table.len() {
        let fits = match (table[i].default, table[i].allowed) {
            (Preset::Bool(_), Allowed::Bool) | (Preset::Text(_), Allowed::OneOf(_)) => true,
            (Preset::Int(v), Allowed::Int(low, high)) => low >= 0 && low <= v && v <= high,
            (Preset::Float(v), Allowed::Float(low, high)) => low <= v && v <= high,
            (Preset::Float(v), Allowed::Above(low, high)) => low < v && v <= high,
            _ => false,
        };
        assert!(fits, "the default of a setting is not among the values that it takes");
        i += 1;
    }
}

/// Declares a struct of options and everything that is derived from it: `Default`, the table of settings, and the way from and to checked values.
///
/// A field has one line of documentation, which is the setting's help text; a type, `usize`, `f64`, `bool` or an enum by [`word_enum!`](crate::word_enum!);
/// a default; and, for numbers, what is allowed ([`Int`](crate::settings::Allowed::Int), [`Float`](crate::settings::Allowed::Float) or
/// [`Above`](crate::settings::Allowed::Above)). The name after the colon is what users write for the row of the table, and may be left out. `..fields!,`
/// takes over the fields of a macro that is written as [below](#shared-fields); `..fields!(…),` hands it arguments, such as other defaults.
///
/// ```
/// use posterior::settings::{Options, Settings, Value};
///
/// posterior::word_enum! {
///     /// Where a walk begins.
///     pub enum Start {
///         /// At the origin.
///         Zero = "zero",
///         /// Anywhere.
///         Random = "random",
///     }
/// }
///
/// posterior::options! {
///     /// A random walk.
///     pub struct Walk: "walk" {
///         /// steps of the walk
///         steps: usize = 100 => Int(1, 1_000_000),
///         /// length of a step
///         length: f64 = 0.5 => Above(0.0, 10.0),
///         /// where it begins
///         start: Start = Start::Zero,
///     }
/// }
///
/// let walk = Walk { steps: 7, ..Walk::default() };
/// let settings = Settings::resolve(Walk::SETTINGS, &walk.pairs(), "method 'walk'")?;
/// assert_eq!(Walk::read(&settings), walk);
///
/// let wrong = Walk { length: 0.0, ..walk };
/// let error = Settings::resolve(Walk::SETTINGS, &wrong.pairs(), "method 'walk'").unwrap_err();
/// assert_eq!(error.to_string(), "the setting 'length' cannot be '0'; it takes a number above 0, at most 10 (default 0.5)");
/// # Ok::<(), posterior::Error>(())
/// ```
///
/// # Shared fields
/// ```
/// macro_rules! length_fields {
///     ({ $($head:tt)* } $($rest:tt)*) => {
///         posterior::options! { $($head)*
///             /// steps of the walk
///             steps: usize = 100 => Int(1, 1_000_000),
///             $($rest)*
///         }
///     };
/// }
/// posterior::options! {
///     /// A walk that turns.
///     pub struct Turning {
///         ..length_fields!,
///         /// part of the steps that turn
///         turns: f64 = 0.1 => Float(0.0, 1.0),
///     }
/// }
/// assert_eq!(Turning::default(), Turning { steps: 100, turns: 0.1 });
/// ```
///
/// A default outside of what is allowed does not compile:
/// ```compile_fail
/// posterior::options! {
///     /// A random walk.
///     pub struct Walk {
///         /// length of a step
///         length: f64 = 0.0 => Above(0.0, 10.0),
///     }
/// }
/// ```
#[macro_export]
macro_rules! options {
    (@fields $head:tt { $($done:tt)* } ..$group:ident!, $($rest:tt)*) => {
        $group! { { @fields $head { $($done)* } } $($rest)* }
    };
    (@fields $head:tt { $($done:tt)* } ..$group:ident!($($argument:tt)*), $($rest:tt)*) => {
        $group! { { @fields $head { $($done)* } } ($($argument)*) $($rest)* }
    };
    (@fields $head:tt { $($done:tt)* }
        #[doc = $help:literal] $field:ident: $type:ident = $default:expr => $allowed:expr, $($rest:tt)*) => {
        $crate::options! { @fields $head {
            $($done)* { $help $field $type [$default] [$allowed] [concat!(", takes `", stringify!($allowed), "`")] }
        } $($rest)* }
    };
    (@fields $head:tt { $($done:tt)* }
        #[doc = $help:literal] $field:ident: bool = $default:expr, $($rest:tt)*) => {
        $crate::options! { @fields $head {
            $($done)* { $help $field bool [$default] [$crate::settings::Allowed::Bool] [""] }
        } $($rest)* }
    };
    (@fields $head:tt { $($done:tt)* }
        #[doc = $help:literal] $field:ident: $type:ident = $default:expr, $($rest:tt)*) => {
        $crate::options! { @fields $head {
            $($done)* { $help $field $type [$default] [$crate::settings::Allowed::OneOf($type::WORDS)] [""] }
        } $($rest)* }
    };
    (@fields { [$($meta:tt)*] [$($vis:tt)*] $name:ident [$($of:literal)?] } {
        $({ $help:literal $field:ident $type:ident [$default:expr] [$allowed:expr] [$takes:expr] })*
    }) => {
        $($meta)*
        #[derive(Debug, Clone, Copy, PartialEq)]
        $($vis)* struct $name {
            $(
                #[doc = $help]
                ///
                #[doc = concat!("Default `", stringify!($default), "`", $takes, ".")]
                pub $field: $type,
            )*
        }

        #[allow(clippy::derivable_impls)]
        impl ::core::default::Default for $name {
            fn default() -> Self {
                $name { $($field: $default),* }
            }
        }

        impl $crate::settings::Options for $name {
            const SETTINGS: &'static [$crate::settings::Setting] = &[$($crate::settings::Setting {
                name: stringify!($field),
                help: $crate::settings::help_of($help),
                default: $crate::options!(@default $type $default),
                allowed: {
                    #[allow(unused_imports)]
                    use $crate::settings::Allowed::{Above, Float, Int};
                    $allowed
                },
            }),*];

            #[allow(unused_variables)]
            fn read(settings: &$crate::settings::Settings) -> Self {
                let usual = <Self as ::core::default::Default>::default();
                $name { $($field: settings.typed(stringify!($field)).unwrap_or(usual.$field)),* }
            }

            fn pairs(&self) -> ::std::vec::Vec<(::std::string::String, $crate::settings::Value)> {
                ::std::vec![
                    $((stringify!($field).to_owned(), $crate::settings::OptionValue::to_value(self.$field))),*
                ]
            }
        }

        const _: () = $crate::settings::verify(<$name as $crate::settings::Options>::SETTINGS);

        $(impl $crate::settings::NamedOptions for $name {
            const NAME: &'static str = $of;
        })?
    };
    (@default usize $default:expr) => {{
        const COUNT: usize = $default;
        $crate::settings::Default::Int(COUNT as i64)
    }};
    (@default f64 $default:expr) => { $crate::settings::Default::Float($default) };
    (@default bool $default:expr) => { $crate::settings::Default::Bool($default) };
    (@default $type:ident $default:expr) => { $crate::settings::Default::Text($type::word($default)) };
    ($(#[$meta:meta])* $vis:vis struct $name:ident $(: $of:literal)? { $($body:tt)* }) => {
        $crate::options! { @fields { [$(#[$meta])*] [$vis] $name [$($of)?] } {} $($body)* }
    };
}

/// Declares the enum of a setting that takes one of several words; see [`options!`](crate::options!).
#[macro_export]
macro_rules! word_enum {
    ($(#[$meta:meta])* $vis:vis enum $name:ident {
        $($(#[$of:meta])* $variant:ident = $word:literal),+ $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $vis enum $name {
            $($(#[$of])* $variant),+
        }

        impl $name {
            /// The words, in the order of the variants.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// What a user writes for it.
            pub const fn word(self) -> &'static str {
                match self {
                    $($name::$variant => $word),+
                }
            }
        }

        impl $crate::settings::OptionValue for $name {
            fn of_value(value: &$crate::settings::Value) -> ::core::option::Option<Self> {
                match value {
                    $crate::settings::Value::Text(word) => match word.as_str() {
                        $($word => ::core::option::Option::Some($name::$variant),)+
                        _ => ::core::option::Option::None,
                    },
                    _ => ::core::option::Option::None,
                }
            }

            fn to_value(self) -> $crate::settings::Value {
                $crate::settings::Value::Text(self.word().to_owned())
            }
        }

        impl ::core::fmt::Display for $name {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.write_str(self.word())
            }
        }
    };
}
