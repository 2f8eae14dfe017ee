//! Secrets that the configuration names instead of holding: `file:PATH` and `env:NAME`.

use std::path::PathBuf;

/// What the configuration writes before a path, and before the name of a variable.
const FROM_FILE: &str = "file:";
const FROM_ENVIRONMENT: &str = "env:";

/// What stands for a secret in printed settings.
pub const HIDDEN: &str = "(hidden)";

/// Where a secret is. Never holds the secret itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretReference {
    /// In a file; line ends at its end are no part of the secret.
    File(PathBuf),
    /// In an environment variable.
    Variable(String),
}

impl SecretReference {
    /// The place that a setting names; none where the setting is no reference.
    pub fn parse(setting: &str) -> Option<Self> {
        match (setting.strip_prefix(FROM_FILE), setting.strip_prefix(FROM_ENVIRONMENT)) {
            (Some(path), _) => Some(SecretReference::File(path.into())),
            (_, Some(name)) => Some(SecretReference::Variable(name.to_string())),
            _ => None,
        }
    }

    /// A setting of a secret as it may be printed: a reference as it is, and nothing of a secret that stands there itself.
    pub fn shown(setting: &str) -> &str {
        if setting.is_empty() || Self::parse(setting).is_some() { setting } else { HIDDEN }
    }

    /// Reads the secret.
    ///
    /// # Errors
    /// What the system says, without the secret.
    pub fn read(&self) -> Result<String, String> {
        match self {
            SecretReference::File(path) => {
                let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
                Ok(text.trim_end_matches(['\r', '\n']).to_string())
            }
            SecretReference::Variable(name) => std::env::var(name).map_err(|error| match error {
                std::env::VarError::NotPresent => "the variable is not set".to_string(),
                std::env::VarError::NotUnicode(_) => "the variable is not UTF-8 text".to_string(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn references_are_told_from_plain_settings() {
        assert_eq!(SecretReference::parse("file:/run/secret"), Some(SecretReference::File("/run/secret".into())));
        assert_eq!(SecretReference::parse("env:TOKEN"), Some(SecretReference::Variable("TOKEN".into())));
        assert_eq!(SecretReference::parse("SASL_SSL"), None);
        assert_eq!(SecretReference::parse(""), None);
        let shown = ["file:/run/secret", "env:TOKEN", "s3cr3t", ""].map(SecretReference::shown);
        assert_eq!(shown, ["file:/run/secret", "env:TOKEN", "(hidden)", ""]);
    }

    #[test]
    fn line_ends_of_a_file_are_no_part_of_the_secret() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(b" two words\r\n\n").expect("written");
        let reference = SecretReference::File(file.path().to_path_buf());
        assert_eq!(reference.read(), Ok(" two words".to_string()));
        assert!(SecretReference::File("/no/such/file".into()).read().is_err());
        let error = SecretReference::Variable("LOOKALIKE_NO_SUCH".into()).read().expect_err("unset");
        assert!(error.contains("not set"), "{error}");
    }
}
