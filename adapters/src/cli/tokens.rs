//! The file of `--bearer-tokens`.

use std::fs::{File, Metadata};
use std::io::Read;
use std::path::Path;

use crate::http::BearerTokens;

/// No list that is meant is larger.
const LARGEST: u64 = 1024 * 1024;

/// The tokens of a file, and whether others than its owner and group may read it.
///
/// # Errors
///
/// One line, which holds nothing of the file's contents.
pub(super) fn load(path: &Path) -> Result<(BearerTokens, bool), String> {
    let cannot = |why: &dyn std::fmt::Display| format!("--bearer-tokens {}: {why}", path.display());
    let mut file = File::open(path).map_err(|error| cannot(&error))?;
    let exposed = file.metadata().is_ok_and(|metadata| is_exposed(&metadata));
    let mut bytes = Vec::new();
    file.by_ref().take(LARGEST + 1).read_to_end(&mut bytes).map_err(|error| cannot(&error))?;
    if bytes.len() as u64 > LARGEST {
        return Err(cannot(&"larger than 1 MiB"));
    }
    let text = str::from_utf8(&bytes).map_err(|_| cannot(&"not UTF-8"))?;
    let tokens = BearerTokens::parse(text).map_err(|error| cannot(&error))?;
    Ok((tokens, exposed))
}

#[cfg(unix)]
fn is_exposed(metadata: &Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    // A pipe or a device, as in <(secret-tool ...), is gone when it has been read.
    metadata.is_file() && metadata.permissions().mode() & 0o004 != 0
}

#[cfg(not(unix))]
const fn is_exposed(_: &Metadata) -> bool {
    false
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_is_read_and_what_is_wrong_with_it_is_one_line() {
        let path = std::env::temp_dir().join(format!("sessile-tokens-{}", std::process::id()));
        let wrong = |path: &Path| load(path).expect_err("it is wrong");
        let missing = format!("--bearer-tokens {}: No such file or directory (os error 2)", path.display());
        assert_eq!(wrong(&path), missing);
        fs::write(&path, "# tokens\nalice s3cret\n").unwrap();
        for (mode, exposed) in [(0o600, false), (0o640, false), (0o644, true)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(load(&path).unwrap().1, exposed, "{mode:o}");
        }
        for (bytes, why) in [
            (&b"alice s3cret\ns3cret"[..], "line 2: expected a name and a token"),
            (b"", "there is no token in it"),
            (b"alice \xff", "not UTF-8"),
            (&vec![b'#'; LARGEST as usize + 1], "larger than 1 MiB"),
        ] {
            fs::write(&path, bytes).unwrap();
            assert_eq!(wrong(&path), format!("--bearer-tokens {}: {why}", path.display()));
        }
        fs::remove_file(&path).unwrap();
    }
}
