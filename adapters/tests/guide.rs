//! What the guide says of settings is what they are.

#![cfg(unix)]

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use sessile::app::stdio::StdioConfig;
use sessile::core::Config;
use sessile::http::ServeConfig;
use sessile::store::MemoryLimits;

/// The fields of a configuration with their values, as `Debug` shows them.
fn fields(part: &str, config: &impl Debug) -> BTreeMap<String, String> {
    let shown = format!("{config:#?}");
    // One level deep: what is deeper belongs to the field above.
    let line = |line: &str| {
        let (name, value) = line.strip_prefix("    ")?.strip_suffix(',')?.split_once(": ")?;
        (!name.starts_with(' ')).then(|| (format!("{part}.{name}"), value.to_owned()))
    };
    let shown = shown.replace("Some(\n        ", "Some(").replace(",\n    )", ")");
    shown.lines().filter_map(line).collect()
}

/// A default of the guide, as `Debug` would show it: of a number, or of a time, a size or a switch.
fn written(default: &str, optional: bool) -> String {
    let value = match default {
        "none" => "[]".to_owned(),
        "off" => "None".to_owned(),
        "yes" => "true".to_owned(),
        "no" => "false".to_owned(),
        _ => {
            let default = default.trim_matches('`').replace(',', "");
            let (number, unit) = default.split_once(' ').unwrap_or((&default, ""));
            match (number.parse::<u64>(), unit) {
                (Ok(number), "ms") => format!("{:?}", Duration::from_millis(number)),
                (Ok(number), "s") => format!("{:?}", Duration::from_secs(number)),
                (Ok(number), "min") => format!("{:?}", Duration::from_secs(60 * number)),
                (Ok(number), "KiB") => (number << 10).to_string(),
                (Ok(number), "MiB") => (number << 20).to_string(),
                _ => default,
            }
        }
    };
    if optional && value != "None" { format!("Some({value})") } else { value }
}

#[test]
fn the_table_of_settings_has_all_of_them_with_their_defaults() {
    let Config { gate, session, sessionless, table, .. } = Config::default();
    let mut settings: BTreeMap<_, _> = [
        fields("gate", &gate),
        fields("session", &session),
        fields("sessionless", &sessionless),
        fields("table", &table),
        fields("serve", &ServeConfig::default()),
        fields("stdio", &StdioConfig::new("server")),
        fields("memory", &MemoryLimits::default()),
    ]
    .into_iter()
    .flatten()
    .collect();
    // What is run, not how long or how much.
    for name in ["program", "args", "env", "pass_env", "cwd", "watcher"] {
        assert!(settings.remove(&format!("stdio.{name}")).is_some(), "{name}");
    }
    let rows = include_str!("../src/guide/limits.md").lines().filter_map(|line| line.strip_prefix("| `"));
    for row in rows {
        let (name, rest) = row.split_once("` | ").expect("a setting");
        let (default, _) = rest.split_once(" | ").expect("a default");
        let value = settings.remove(name).unwrap_or_else(|| panic!("there is no {name}"));
        assert_eq!(written(default, value.starts_with("Some(") || value == "None"), value, "{name}");
    }
    assert_eq!(settings, BTreeMap::new(), "not in the guide");
}
