//! Where the program listens: an address, or the path of a Unix socket.
//!
//! Owns the socket before it is served, and the file of a Unix socket until the end. A file that is there already is removed if it is
//! a socket that nobody answers on, which is what a killed program leaves behind; anything else stays.

use std::fmt;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use socket2::{Domain, SockAddr, Type};

use crate::runtime::Socket;

/// Connections that wait to be accepted; the system lowers it to its own limit.
const BACKLOG: i32 = 4_096;

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Listen {
    /// An address; port 0 is a free one.
    Tcp(SocketAddr),
    /// A path.
    Unix(PathBuf),
}

impl Listen {
    /// What clients on this machine alone can reach, and browsers, if at all, only by a name of this machine.
    pub(super) fn is_loopback(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().is_loopback(),
            Self::Unix(_) => true,
        }
    }

    /// Binds it. Whoever connects to a Unix socket needs the permissions of `mode` for its file.
    ///
    /// # Errors
    ///
    /// One line that says why not.
    pub(super) fn bind(&self, mode: u32) -> Result<Bound, String> {
        let bound = match self {
            Self::Tcp(address) => tcp(*address),
            Self::Unix(path) => unix(path, mode),
        };
        bound.map_err(|error| {
            let why = match (self, error.kind()) {
                (Self::Tcp(_), io::ErrorKind::AddrInUse) => "the port is in use",
                (Self::Unix(_), io::ErrorKind::AddrInUse) => "somebody else does",
                (Self::Unix(_), io::ErrorKind::AlreadyExists) => "there is a file that is no socket",
                _ => &error.to_string(),
            };
            format!("can't listen on {self}: {why}")
        })
    }
}

/// As the option has it.
impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A socket that listens.
#[derive(Debug)]
pub(super) struct Bound {
    /// What to serve on.
    pub(super) socket: Socket,
    /// Where it listens, with the port that it got.
    pub(super) at: Listen,
    /// Removed when it is dropped.
    pub(super) file: Option<SocketFile>,
}

/// Binds a socket that a restarted program can bind again at once.
fn tcp(address: SocketAddr) -> io::Result<Bound> {
    let socket = socket2::Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    if address.ip() == std::net::Ipv6Addr::UNSPECIFIED {
        // `[::]` means every address; that systems differ here helps nobody. Some have IPv6 alone, or forbid it.
        let _ = socket.set_only_v6(false);
    }
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    let listener = std::net::TcpListener::from(socket);
    let at = Listen::Tcp(listener.local_addr()?);
    Ok(Bound { socket: listener.into(), at, file: None })
}

fn unix(path: &Path, mode: u32) -> io::Result<Bound> {
    let address = SockAddr::unix(path)?;
    let new = || socket2::Socket::new(Domain::UNIX, Type::STREAM, None);
    let socket = new()?;
    if let Err(error) = socket.bind(&address) {
        if error.kind() != io::ErrorKind::AddrInUse {
            return Err(error);
        }
        if !fs::symlink_metadata(path)?.file_type().is_socket() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let asking = new()?;
        // Somebody who has no time for us is there all the same.
        asking.set_nonblocking(true)?;
        match asking.connect(&address) {
            Err(refused) if refused.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path)?,
            Ok(()) | Err(_) => return Err(error),
        }
        socket.bind(&address)?;
    }
    let file = SocketFile::at(path)?;
    // Before anybody can connect.
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    socket.listen(BACKLOG)?;
    let listener = std::os::unix::net::UnixListener::from(socket);
    Ok(Bound { socket: listener.into(), at: Listen::Unix(path.to_owned()), file: Some(file) })
}

/// The file of a Unix socket. It goes when this does, unless another file has taken its place.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl SocketFile {
    fn at(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), identity: identity(path)? })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|identity| identity == self.identity) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|file| (file.dev(), file.ino()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    const MODE: u32 = 0o600;

    #[test]
    fn a_socket_has_its_mode_and_goes_with_its_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let listen = Listen::Unix(path.clone());
        for mode in [MODE, 0o660] {
            let bound = listen.bind(mode).expect("it is free");
            assert_eq!(fs::metadata(&path).expect("a file").permissions().mode() & 0o777, mode);
            UnixStream::connect(&path).expect("it listens");
            assert!(listen.bind(mode).expect_err("taken").ends_with(": somebody else does"));
            UnixStream::connect(&path).expect("it still listens");
            assert_eq!(bound.at, listen);
            drop(bound);
            assert!(!path.exists());
        }
    }

    #[test]
    fn what_a_killed_program_leaves_is_replaced_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let listen = Listen::Unix(path.clone());
        drop(UnixListener::bind(&path).expect("it is free"));
        assert!(path.exists());
        let bound = listen.bind(MODE).expect("nobody answers");
        // A newer one in its place is not ours to remove.
        fs::remove_file(&path).expect("it is there");
        let newer = listen.bind(MODE).expect("it is free");
        drop(bound);
        assert!(path.exists());
        drop(newer);

        fs::write(&path, "precious").expect("a file");
        assert!(listen.bind(MODE).expect_err("taken").ends_with(": there is a file that is no socket"));
        assert_eq!(fs::read(&path).expect("a file"), b"precious");
        assert!(Listen::Unix("/nonexistent/socket".into()).bind(MODE).is_err());
        assert!(Listen::Unix(folder.path().join("x".repeat(200))).bind(MODE).is_err());
    }
}
