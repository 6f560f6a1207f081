//! What a reader should get now, by the model, which moves on as if it had got it.

use std::fmt::Write as _;

use sessile_core::config::ResponseMode;

use super::*;

impl Bench {
    pub(super) fn expect_head(&mut self, at: usize) -> Head {
        let starting = self.model.starting(at);
        let request = &mut self.model.requests[at];
        let Reader::Held { until } = request.reader else { return Head::Refuse(Outcome::SessionEnded) };
        if let Some(refusal) = request.refusal.take() {
            self.model.finish(at);
            return Head::Refuse(refusal);
        }
        let alone = request.log.front().is_some_and(|(kind, _)| *kind == Kind::Response);
        match request.mode {
            ResponseMode::Json if request.open => return Head::Hold { until: None },
            ResponseMode::Auto | ResponseMode::Sse if request.open => {
                if (request.log.is_empty() || starting) && until.is_some_and(|until| self.now < until) {
                    return Head::Hold { until };
                }
            }
            ResponseMode::Auto if !alone => {}
            ResponseMode::Sse => {}
            ResponseMode::Auto | ResponseMode::Json => {
                let response = request.log.iter().position(|(kind, _)| *kind == Kind::Response).expect("an answer");
                let (_, raw) = request.log.remove(response).expect("it is there");
                self.model.finish(at);
                return Head::Json(raw.into());
            }
        }
        request.reader = Reader::Streaming { begun: false };
        Head::Stream
    }

    /// What a reader of this log gets, and whether there is more.
    fn expect_events(&mut self, dest: Dest, limit: usize) -> (String, bool) {
        let mut out = String::new();
        while out.is_empty() || out.len() < limit {
            let Some((kind, raw)) = self.model.log(dest).pop_front() else { return (out, false) };
            let _ = write!(out, "event: message\ndata: {raw}\n\n");
            if let Kind::Question(id) = kind
                && let Some(question) = self.model.questions.get_mut(&id)
            {
                question.until = None;
            }
        }
        let more = !self.model.log(dest).is_empty();
        (out, more)
    }

    pub(super) fn expect_frames(&mut self, at: usize, limit: usize) -> (String, ReaderOutput) {
        let Reader::Streaming { begun } = self.model.requests[at].reader else {
            return (String::new(), ReaderOutput::Finished);
        };
        self.model.requests[at].reader = Reader::Streaming { begun: true };
        let (mut out, more) = self.expect_events(Dest::Request(at), limit);
        if more {
            return (out, ReaderOutput::Ready);
        }
        if !begun && out.is_empty() {
            out.push_str(":\n\n");
        }
        if self.model.requests[at].open {
            return (out, ReaderOutput::Pending);
        }
        self.model.finish(at);
        (out, ReaderOutput::Finished)
    }

    pub(super) fn expect_get(&mut self, number: usize, limit: usize) -> (String, ReaderOutput) {
        let newest = self.model.gets.last().is_some_and(|get| get.number == number);
        let Some(get) = self.model.gets.iter_mut().find(|get| get.number == number) else {
            return (String::new(), ReaderOutput::Finished);
        };
        let begun = std::mem::replace(&mut get.begun, true);
        let closing = get.closing;
        let (mut out, more) = if newest { self.expect_events(Dest::Get, limit) } else { (String::new(), false) };
        if more {
            return (out, ReaderOutput::Ready);
        }
        let Some(come_back) = closing else {
            if !begun && out.is_empty() {
                out.push_str(":\n\n");
            }
            return (out, ReaderOutput::Pending);
        };
        if come_back {
            out.push_str("retry: 1000\n\n");
        }
        self.model.leave_get(number);
        (out, ReaderOutput::Finished)
    }
}
