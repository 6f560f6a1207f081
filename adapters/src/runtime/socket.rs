//! The options of a served socket, the same under every runtime.

use std::io;
use std::time::Duration;

use socket2::SockRef;

/// Sets `TCP_NODELAY`, and an end for peers that vanish: writes to them go on succeeding until the system gives up, which
/// takes a quarter of an hour when nobody says otherwise.
pub(super) fn tune(socket: &SockRef<'_>, user_timeout: Option<Duration>) -> io::Result<()> {
    socket.set_tcp_nodelay(true)?;
    let Some(timeout) = user_timeout else { return Ok(()) };
    end_for_vanished_peers(socket, timeout)
}

#[cfg(any(target_os = "android", target_os = "linux"))]
fn end_for_vanished_peers(socket: &SockRef<'_>, timeout: Duration) -> io::Result<()> {
    socket.set_tcp_user_timeout(Some(timeout))
}

#[cfg(not(any(target_os = "android", target_os = "linux")))]
fn end_for_vanished_peers(socket: &SockRef<'_>, timeout: Duration) -> io::Result<()> {
    // The system wants whole seconds, and at least one.
    let idle = (timeout / 2).max(Duration::from_secs(1));
    socket.set_tcp_keepalive(&socket2::TcpKeepalive::new().with_time(idle))
}
