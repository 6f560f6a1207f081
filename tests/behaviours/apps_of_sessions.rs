//! Apps that run as long as their session.

use crate::talk::{code, request};
use crate::world::{Kind, Setup, World};

fn setup() -> Setup {
    Setup { kind: Kind::App, ..Setup::default() }
}

pub(crate) async fn it_answers_and_ends_with_its_session(world: World) {
    let site = world.site(setup());
    let id = site.open().await;
    let mut stream = site.get(&id).await;
    assert_eq!(site.status_of(&id, "$PING").await, 200);
    assert_eq!(site.post(&id, &request(1, "noted")).await.messages().await.len(), 3);
    assert_eq!(site.status_of(&id, &request(2, "tell-session")).await, 200);
    assert_eq!(stream.message().await.expect("a note")["params"]["number"], 1);
    assert_eq!((site.stats)().app_tasks, 1);
    assert_eq!(site.delete(&id).await, 204);
    site.seen.until(|facts| facts.over == 1).await;
}

pub(crate) async fn it_ends_and_its_session_with_it(world: World) {
    let site = world.site(setup());
    let id = site.open().await;
    let mut stream = site.get(&id).await;
    let mut call = site.post(&id, &request(1, "crash")).await;
    assert_eq!((code(&call.json().await), call.status()), (-32603, 500));
    assert_eq!(stream.message().await, None);
    assert_eq!(site.status_of(&id, "$PING").await, 404);
    assert_eq!(site.sessions(), 0);
}
