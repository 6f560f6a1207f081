//! The standalone stream of a session, over as many connections as it takes.

use http::{Method, StatusCode};
use serde_json::{Value, json};
use sessile_tests::events::EventReader;

use crate::client::Session;

impl Session {
    /// Listens for a while, hangs up in the midst of it and comes back after what it has heard.
    pub(crate) async fn listen(&self) {
        let way = &self.way;
        let (mut last, mut number): (Option<String>, u64) = (None, 0);
        for _ in 0..way.random(|rng| rng.u32(1..6)) {
            let mut request = way.request(Method::GET, Some(&self.id), &Value::Null);
            if let Some(last) = &last {
                request.headers_mut().insert("last-event-id", last.parse().expect("an event id is a good header"));
            }
            let Some(mut exchange) = way.send(request).await else { return };
            let Some(head) = way.patiently(exchange.head()).await else { panic!("the head of a GET is never held") };
            let Ok((status, _)) = head else { continue };
            if status != StatusCode::OK {
                return self.is_over(status, b"");
            }
            let mut reader = EventReader::default();
            let listen = async {
                while let Ok(Some(piece)) = exchange.piece().await {
                    reader.push(&piece);
                    for event in reader.by_ref() {
                        last = event.id.or_else(|| last.take());
                        let Some(data) = event.data else { continue };
                        let message: Value = serde_json::from_str(&data).expect("JSON");
                        self.hear(&message, &mut number).await;
                    }
                }
            };
            way.leave_in(20_000, listen).await;
        }
    }

    async fn hear(&self, message: &Value, number: &mut u64) {
        let params = &message["params"];
        if let Some(tag) = params["tag"].as_str() {
            // What a request that takes JSON alone has to say, or asks.
            assert_eq!(tag.split_once('#').map(|(session, _)| session), Some(&*self.tag), "{message}");
            if message["method"] == "ask" {
                let answer = json!({"tag": tag});
                self.tell(&json!({"jsonrpc": "2.0", "id": message["id"], "result": answer})).await;
            }
            return;
        }
        assert_eq!(params["session"], self.tag, "somebody else's: {message}");
        let next = params["number"].as_u64().expect("a number");
        assert!(next > *number, "{}: {next} after {number}", self.tag);
        *number = next;
        self.way.site.ledger.count("a note of a session");
    }
}
