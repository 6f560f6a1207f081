//! The standalone stream.

use serde_json::{Value, json};

use crate::talk::{Call, Site};
use crate::world::World;

async fn tell(site: &Site, session: &str, number: u32) {
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tell", "params": {"number": number}});
    assert_eq!(site.status_of(session, &message.to_string()).await, 200);
}

async fn number(stream: &mut Call) -> Option<Value> {
    stream.message().await.map(|mut message| message["params"]["number"].take())
}

pub(crate) async fn the_standalone_stream_carries_what_belongs_to_no_request(world: World) {
    let site = world.site_with(|_| {});
    let id = site.open().await;
    let mut stream = site.get(&id).await;
    assert_eq!(stream.header("cache-control").as_deref(), Some("no-cache, no-transform"));
    for told in 1..4 {
        tell(&site, &id, told).await;
        assert_eq!(number(&mut stream).await, Some(told.into()));
    }
}

pub(crate) async fn what_nobody_hears_waits_for_a_listener(world: World) {
    let site = world.site_with(|_| {});
    let (id, other) = (site.open().await, site.open().await);
    for told in 1..4 {
        tell(&site, &id, told).await;
        tell(&site, &other, 10 * told).await;
    }
    let mut stream = site.get(&id).await;
    for told in 1..4 {
        assert_eq!(number(&mut stream).await, Some(told.into()));
    }
}

pub(crate) async fn the_newest_get_carries_and_the_next_takes_over(world: World) {
    let site = world.site_with(|_| {});
    let id = site.open().await;
    let mut older = site.get(&id).await;
    let mut newer = site.get(&id).await;
    tell(&site, &id, 1).await;
    assert_eq!(number(&mut newer).await, Some(1.into()));
    drop(newer);
    site.until(|stats| stats.streams == 1).await;
    tell(&site, &id, 2).await;
    assert_eq!(number(&mut older).await, Some(2.into()));
}

pub(crate) async fn one_get_too_many_ends_the_oldest(world: World) {
    let site = world.site_with(|config| config.session.max_standalone = 2);
    let id = site.open().await;
    let (mut oldest, _other, mut newest) = (site.get(&id).await, site.get(&id).await, site.get(&id).await);
    assert_eq!(number(&mut oldest).await, None);
    tell(&site, &id, 1).await;
    assert_eq!(number(&mut newest).await, Some(1.into()));
}
