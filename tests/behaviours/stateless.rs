//! The legacy era without sessions.

use crate::row::{UNKNOWN, delete, get, post};
use crate::world::World;

pub(crate) async fn each_request_is_served_alone(world: World) {
    let site = world.site_with(|config| {
        config.gate.stateless = true;
        config.table.idle_timeout = None;
    });
    for (session, body, status) in
        [(None, "$INIT", 200), (None, "$NOTE", 202), (None, "$PING", 200), (Some(UNKNOWN), "$PING", 200)]
    {
        let answer = site.ask(post(session, body)).await;
        assert_eq!((answer.status(), answer.header("mcp-session-id")), (status, None), "{body}");
    }
    for request in [get(UNKNOWN), delete(UNKNOWN)] {
        assert_eq!(site.ask(request).await.status(), 405);
    }
    assert_eq!((site.sessions(), (site.stats)().sessionless), (0, 0));
}
