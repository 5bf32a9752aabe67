//! From flags and a configuration file to a recipe.

use crate::cli;
use anyhow::bail;
use posterior::model::find_model;
use posterior::model::{Choice, Recipe};
use posterior::nn::{Activation, NETWORKS, NetworkSpec};
use posterior::settings::Value;

/// The configuration file's recipe, or the default one, with the flags laid over it.
pub fn from_flags(flags: &cli::Recipe, method: Option<&str>) -> anyhow::Result<Recipe> {
    let recipe = match &flags.config {
        Some(path) => Recipe::from_file(path)?,
        None => Recipe::default(),
    };
    over(recipe, flags, method)
}

/// The recipe of a model that is started from, with a prior and a method of the flags; its network and likelihood are the model's.
pub fn from_start(mut recipe: Recipe, flags: &cli::Recipe, method: Option<&str>) -> anyhow::Result<Recipe> {
    let given = [
        ("--network", flags.network.is_some()),
        ("--activation", flags.activation.is_some()),
        ("--likelihood", flags.likelihood.is_some()),
        ("--config", flags.config.is_some()),
    ];
    if let Some((flag, _)) = given.iter().find(|(_, given)| *given) {
        bail!(
            "{flag} does not go with --start, which takes network and likelihood from the model; leave one of them out"
        );
    }
    recipe.method = Choice::default();
    over(recipe, flags, method)
}

fn over(mut recipe: Recipe, flags: &cli::Recipe, method: Option<&str>) -> anyhow::Result<Recipe> {
    let activation = flags.activation.as_deref().map(Activation::find).transpose()?;
    match (&flags.network, activation) {
        (Some(text), Some(_)) if NETWORKS.iter().any(|(name, _)| *name == text.trim()) => {
            bail!("--activation is for a network given by its widths, as in --network 50,50; {text} has its own")
        }
        (Some(text), activation) => recipe.network = NetworkSpec::parse(text, activation.unwrap_or(Activation::Tanh))?,
        (None, Some(activation)) if flags.config.is_none() => recipe.network = NetworkSpec::parse("50", activation)?,
        (None, Some(_)) => bail!("--activation goes with --network; in a configuration file it stands in [network]"),
        (None, None) => {}
    }
    // Another row of a table has other settings: those of the row it replaces do not carry over.
    let choose = |choice: &mut Choice, name: Option<&str>| {
        if let Some(name) = name.filter(|n| choice.name.as_deref() != Some(n)) {
            *choice = Choice::named(name);
        }
    };
    choose(&mut recipe.likelihood, flags.likelihood.as_deref());
    choose(&mut recipe.prior, flags.prior.as_deref());
    choose(&mut recipe.method, method);
    if let Some(kernel) = &flags.kernel {
        if recipe.method.name.as_deref().is_some_and(|name| find_model(name).is_none()) {
            bail!("--kernel is for a Gaussian process; use --method gp, or leave it out");
        }
        recipe.method.settings.insert("kernel".to_owned(), Value::Text(kernel.clone()));
    }
    for set in &flags.set {
        recipe.set(set).map_err(|e| anyhow::anyhow!("--set {set}: {e}"))?;
    }
    Ok(recipe)
}
