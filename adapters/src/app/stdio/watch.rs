//! Who is told of children, so that they end even when this process is killed.

/// Is told of each child's process group, to end those that are left when this process can't do so itself any more.
///
/// Without one, a child whose session's process was killed is told by the end of its input alone, which it may ignore. The
/// program `sessile` has one in a process of its own.
///
/// A child's number is known only once it is there: while it is being started, for a millisecond or so, no watcher knows of it.
pub trait GroupWatcher: Send + Sync + 'static {
    /// A child has been started; its number is its group's. Called before anything is sent to it. Must not wait.
    fn born(&self, group: u32);

    /// The whole group has got SIGKILL, so that there is nothing left to do about it, and its leader is still to be reaped. From
    /// the return of this call on, the number may come to mean somebody else's group and must not be signalled. Called
    /// once. Must not wait.
    fn gone(&self, group: u32);
}
