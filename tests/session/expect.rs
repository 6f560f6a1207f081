//! What a reader should get now, by the model, which moves on as if it had got it.

use std::fmt::Write as _;

use sessile_core::config::ResponseMode;

use super::*;

impl Bench {
    pub(super) fn expect_head(&mut self, at: usize) -> Head {
        let starting = self.model.starting(at);
        let request = &mut self.model.requests[at];
        let until = match request.reader {
            Reader::Held { until } => until,
            Reader::Streaming { .. } => return Head::Stream,
            Reader::Left(_) | Reader::Kept | Reader::Done => return Head::Refuse(Outcome::SessionEnded),
        };
        if let Some(refusal) = request.refusal.take() {
            self.model.finish(at);
            return Head::Refuse(refusal);
        }
        let alone = request.log.items.first().is_some_and(|item| item.kind == Kind::Response);
        match request.mode {
            ResponseMode::Json if request.open => return Head::Hold { until: None },
            ResponseMode::Auto | ResponseMode::Sse if request.open => {
                if request.pause.is_none()
                    && (request.log.items.is_empty() || starting)
                    && until.is_some_and(|until| self.now < until)
                {
                    return Head::Hold { until };
                }
            }
            ResponseMode::Auto if !alone => {}
            ResponseMode::Sse => {}
            ResponseMode::Auto | ResponseMode::Json => {
                let items = &mut request.log.items;
                let response = items.iter().position(|item| item.kind == Kind::Response).expect("an answer");
                let raw = items.remove(response).raw;
                self.model.finish(at);
                return Head::Json(raw.into());
            }
        }
        request.reader = Reader::Streaming { begun: false, since: self.now, moved: self.now };
        Head::Stream
    }

    /// What a reader of this log gets, after what it has got already, and whether there is more.
    fn expect_events(&mut self, dest: Dest, limit: usize, out: &mut String) -> bool {
        let keep = self.config.resume;
        while self.model.log(dest).next_unread().is_some() {
            if !out.is_empty() && out.len() >= limit {
                return true;
            }
            let (item, new) = self.model.log(dest).take(self.now, keep);
            let id = if keep { format!("id: {}-{}\n", self.model.number(dest), item.id) } else { String::new() };
            let _ = write!(out, "event: message\n{id}data: {}\n\n", item.raw);
            if let Kind::Question(id) = item.kind
                && new
                && let Some(question) = self.model.questions.get_mut(&id)
            {
                question.until = None;
            }
        }
        false
    }

    /// The event that a stream begins with.
    fn expect_priming(&mut self, dest: Dest) -> String {
        let number = self.model.number(dest);
        let log = self.model.log(dest);
        log.given += 1;
        format!("id: {number}-{}\nretry: 1000\ndata: \n\n", log.given)
    }

    /// What a connection begins with that has nothing to read.
    fn expect_beginning(&mut self, dest: Dest) -> String {
        let position = self.model.log(dest).position();
        if position == 0 || !self.model.polls() {
            return ":\n\n".to_owned();
        }
        format!("id: {}-{position}\nretry: 1000\ndata: \n\n", self.model.number(dest))
    }

    pub(super) fn expect_frames(&mut self, at: usize, number: usize, limit: usize) -> (String, ReaderOutput) {
        let request = &mut self.model.requests[at];
        let Reader::Streaming { begun, since, .. } = request.reader else {
            return (String::new(), ReaderOutput::Finished);
        };
        if request.connection != number {
            return (String::new(), ReaderOutput::Finished);
        }
        request.reader = Reader::Streaming { begun: true, since, moved: self.now };
        let (open, pause, known) = (request.open, request.pause, request.log.given > 0);
        let dest = Dest::Request(at);
        let mut out = String::new();
        if !begun && !known && self.model.polls() {
            out = self.expect_priming(dest);
        }
        let at_once = pause.is_some_and(|(at_once, _)| at_once);
        if !at_once && self.expect_events(dest, limit, &mut out) {
            return (out, ReaderOutput::Ready);
        }
        if !begun && out.is_empty() {
            out = self.expect_beginning(dest);
        }
        if let Some((at_once, retry)) = pause
            && (open || at_once)
        {
            let _ = write!(out, "retry: {retry}\n\n");
            if open {
                self.model.detach(self.now, at);
                return (out, ReaderOutput::Detached);
            }
        }
        if open {
            return (out, ReaderOutput::Pending);
        }
        self.model.retire(at);
        (out, ReaderOutput::Finished)
    }

    pub(super) fn expect_get(&mut self, number: usize, limit: usize) -> (String, ReaderOutput) {
        let newest = self.model.gets.last().is_some_and(|get| get.number == number);
        let Some(get) = self.model.gets.iter_mut().find(|get| get.number == number) else {
            return (String::new(), ReaderOutput::Finished);
        };
        get.moved = self.now;
        let begun = std::mem::replace(&mut get.begun, true);
        let (closing, resumed) = (get.closing, get.resumed);
        let mut out = String::new();
        if !begun && !resumed && self.model.polls() {
            out = self.expect_priming(Dest::Get);
        }
        if newest && self.expect_events(Dest::Get, limit, &mut out) {
            return (out, ReaderOutput::Ready);
        }
        if !begun && out.is_empty() {
            out = self.expect_beginning(Dest::Get);
        }
        let Some(come_back) = closing else {
            return (out, ReaderOutput::Pending);
        };
        if let Some(retry) = come_back {
            let _ = write!(out, "retry: {retry}\n\n");
        }
        self.model.leave_get(number);
        (out, ReaderOutput::Finished)
    }
}
