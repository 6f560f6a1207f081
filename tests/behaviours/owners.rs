//! What belongs to whom.

use http::Request;
use sessile_tests::principals::WHO;
use sessile_tests::pure::Upload;

use crate::row::{UNKNOWN, delete, get, post};
use crate::talk::{request, with};
use crate::world::World;

pub(crate) async fn a_foreign_session_is_as_unknown_as_none(world: World) {
    let site = world.site_with(|_| {});
    let id = site.open().await;
    let requests: [fn(&str) -> Request<Upload>; 4] =
        [|id| post(Some(id), "$PING"), |id| post(Some(id), "not JSON"), get, delete];
    for (number, request) in requests.into_iter().enumerate() {
        let mut answers = Vec::new();
        for session in [&*id, UNKNOWN] {
            let answer = site.ask(with(request(session), WHO.as_str(), "bob")).await;
            let mut headers = answer.headers().clone();
            headers.remove("date");
            answers.push((answer.status(), headers, answer.text()));
        }
        assert_eq!(answers[0], answers[1], "{number}");
        assert_eq!(answers[0].0, 404);
    }
    assert_eq!(site.status_of(&id, "$PING").await, 200, "its owner has not noticed");
}

pub(crate) async fn everybody_has_their_own(world: World) {
    let site = world.site_with(|_| {});
    for who in ["alice", "bob", "carol"] {
        let id = site.open_as(who, "$INIT").await;
        let mut call = site.send(with(post(Some(&id), &request(1, "who")), WHO.as_str(), who)).await;
        assert_eq!(call.json().await["result"], who);
    }
    assert_eq!(site.sessions(), 3);
}
