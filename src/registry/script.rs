//! A registry that answers as a test says.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use super::answer::Answer;
use super::error::LookupError;
use super::subjects::{Asking, Subjects};
use postrider_core::envelope::Schema;

pub(super) type Scripted = Result<Answer, LookupError>;

/// What it answers, by subject; then nothing.
#[derive(Clone, Default)]
pub(super) struct Script(Rc<RefCell<Inner>>);

#[derive(Default)]
struct Inner {
    answers: HashMap<String, VecDeque<Scripted>>,
    asked: Vec<String>,
}

impl Script {
    pub(super) fn add(&self, subject: &str, answer: Scripted) -> &Self {
        let mut inner = self.0.borrow_mut();
        inner.answers.entry(subject.to_owned()).or_default().push_back(answer);
        self
    }

    /// The subjects that were asked about since the last call, in order.
    pub(super) fn take_asked(&self) -> Vec<String> {
        std::mem::take(&mut self.0.borrow_mut().asked)
    }

    pub(super) fn subjects(&self) -> Subjects {
        let inner = Rc::clone(&self.0);
        let ask = move |subject: String| {
            let mut inner = inner.borrow_mut();
            inner.asked.push(subject.clone());
            let answer = inner.answers.get_mut(&subject).and_then(VecDeque::pop_front);
            Box::pin(async move {
                match answer {
                    Some(answer) => (subject, answer),
                    None => std::future::pending().await,
                }
            }) as Asking
        };
        Subjects::new("http://registry:8081".to_owned(), Box::new(ask))
    }
}

pub(super) fn schema(id: u32) -> Scripted {
    Ok(Answer::Schema(Schema { id, guid: Some([id.to_le_bytes()[0]; 16]) }))
}

pub(super) fn refused() -> Scripted {
    Err(LookupError::Connect(std::io::ErrorKind::ConnectionRefused.into()))
}
