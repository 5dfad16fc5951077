//! The output of a machine.

use std::borrow::Cow;

/// The output of a machine, and how much of it has been read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Transcript {
    bytes: Vec<u8>,
    /// The index in `bytes` at which the next line to read starts.
    next_line: usize,
}

impl Transcript {
    /// Appends bytes that the machine has printed. They may end in the middle of a line.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next complete line that has not been read, without its newline.
    pub(crate) fn next_line(&mut self) -> Option<String> {
        let rest = &self.bytes[self.next_line..];
        let length = rest.iter().position(|&byte| byte == b'\n')?;
        let line = String::from_utf8_lossy(&rest[..length]).into_owned();
        self.next_line += length + 1;
        Some(line)
    }

    /// Returns the whole output except what [`forget`](Self::forget) has dropped.
    pub(crate) fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.bytes)
    }

    /// Drops the lines that have been read.
    pub(crate) fn forget(&mut self) {
        self.bytes.drain(..self.next_line);
        self.next_line = 0;
    }

    /// Checks that the output contains all of `texts`, in this order. Returns the first text that does not occur after
    /// the previous text, or `None` if there is no such text.
    pub(crate) fn missing<'a>(&self, texts: &'a [String]) -> Option<&'a str> {
        let text = self.text();
        let mut rest = &*text;
        texts.iter().map(String::as_str).find(|expected| {
            let found = rest.find(expected);
            rest = found.map_or("", |index| &rest[index + expected.len()..]);
            found.is_none()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_when_they_are_whole() {
        let mut transcript = Transcript::default();
        transcript.push(b"one\ntw");
        assert_eq!(transcript.next_line().as_deref(), Some("one"));
        assert_eq!(transcript.next_line(), None);
        transcript.push(b"o\n\nfour");
        assert_eq!(transcript.next_line().as_deref(), Some("two"));
        assert_eq!(transcript.next_line().as_deref(), Some(""));
        assert_eq!(transcript.next_line(), None);
        assert_eq!(transcript.text(), "one\ntwo\n\nfour");
        transcript.forget();
        assert_eq!(transcript.text(), "four");
    }

    #[test]
    fn texts_must_stand_in_order() {
        let mut transcript = Transcript::default();
        transcript.push(b"panic: reason\n  at f\n");
        let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        assert_eq!(transcript.missing(&[]), None);
        assert_eq!(transcript.missing(&texts(&["panic", "at f"])), None);
        assert_eq!(transcript.missing(&texts(&["at f", "panic"])), Some("panic"));
        assert_eq!(transcript.missing(&texts(&["panic", "panic"])), Some("panic"));
        assert_eq!(transcript.missing(&texts(&["at g", "panic"])), Some("at g"));
    }
}
