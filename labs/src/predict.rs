//! Questions about what the scheduler does: one predicts the answer, and a run shows it.

use std::io::BufRead;

use crate::error::{Error, Result};
use crate::lab::{Lab, Question};
use crate::run::answer;
use crate::timeline::convert;
use crate::tree::{NotBuilt, Tree};

/// Asks the questions of `lab`, reads the predictions from `input`, and shows the answers, which the scheduler in `tree`
/// gives. Returns whether all predictions were right. Stops at the end of the input.
pub(crate) fn ask(lab: &Lab, tree: &Tree, input: &mut dyn BufRead) -> Result<bool> {
    if lab.questions.is_empty() {
        return Err(Error::new(format!("lab {} has no questions to predict; its page has others", lab.number)));
    }
    eprintln!("Building the runs of lab {} …", lab.number);
    let built = tree.build(lab.checks()).map_err(|error| match error {
        NotBuilt::DoesNotCompile(refusal) => Error::new(format!("the code does not compile:\n{}", refusal.text)),
        NotBuilt::Error(error) => error,
    })?;
    let (mut right, mut answered) = (0, 0);
    for (question, number) in lab.questions.iter().zip(1..) {
        println!("{number}. {}", question.text.trim());
        let Some(prediction) = read(question, input)? else {
            println!("(no prediction: the input has ended)");
            return Ok(false);
        };
        let file = tree.root().join(format!("target/lab/lab-{}-question-{number}", lab.number));
        let trace = file.with_extension("trace");
        let Some(answer) = answer(&built.path, &question.run, Some(&trace))? else {
            println!(
                "With what stands in the holes now, the run does not end as it should, so there is no answer yet.\n\
                 Ask again when more checks of `cargo lab check {}` are `ok`.\n",
                lab.number
            );
            continue;
        };
        answered += 1;
        let is_right = is_same(&prediction, &answer);
        right += usize::from(is_right);
        println!("{} {answer}", if is_right { "Right:" } else { "No, it is" });
        println!("{}", question.why.trim());
        if trace.exists() {
            convert(tree, &trace, &file)?;
            println!("See it: open {}", file.with_extension("html").display());
        }
        println!();
    }
    println!("{right} of {answered} predictions were right");
    Ok(right == lab.questions.len())
}

/// Reads a prediction: the next line that may be an answer to `question`. Returns `None` at the end of the input.
fn read(question: &Question, input: &mut dyn BufRead) -> Result<Option<String>> {
    let choices = question.choices.join(", ");
    loop {
        if !choices.is_empty() {
            println!("One of: {choices}");
        }
        let mut line = String::new();
        let length = input.read_line(&mut line).map_err(|error| Error::new(format!("cannot read: {error}")))?;
        if length == 0 {
            return Ok(None);
        }
        if question.may_be(&line) {
            return Ok(Some(line));
        }
        println!("That is no answer; once more, please.");
    }
}

impl Question {
    /// Whether `text` is one of the choices. If there are no choices, whether `text` has a word.
    pub(crate) fn may_be(&self, text: &str) -> bool {
        match &self.choices[..] {
            [] => !is_same(text, ""),
            choices => choices.iter().any(|choice| is_same(text, choice)),
        }
    }
}

/// Whether a prediction is the answer: capitals, commas, spaces and the word "and" do not count. Single letters may also be
/// written as one word.
fn is_same(prediction: &str, answer: &str) -> bool {
    let words = |text: &str| -> Vec<String> {
        let parts = text.split(|character: char| !character.is_alphanumeric());
        parts.map(str::to_lowercase).filter(|part| !part.is_empty() && part != "and").collect()
    };
    let (predicted, answer) = (words(prediction), words(answer));
    let has_letters = answer.iter().all(|word| word.len() == 1 && !word.starts_with(char::is_numeric));
    predicted == answer || has_letters && predicted.concat() == answer.concat()
}

#[cfg(test)]
mod tests {
    use super::{is_same, read};
    use crate::lab::Question;

    #[test]
    fn line_that_is_no_answer_is_asked_for_again() {
        let question = |choices: &[&str]| Question {
            text: "How many?".to_string(),
            choices: choices.iter().map(ToString::to_string).collect(),
            run: String::new(),
            why: String::new(),
        };
        let (of_choices, free) = (question(&["1", "20", "1000"]), question(&[]));
        let read = |question, mut lines: &[u8]| read(question, &mut lines).unwrap();
        assert_eq!(read(&of_choices, b"\nabout 20\n2\n 20 \n1\n").as_deref(), Some(" 20 \n"));
        assert_eq!(read(&of_choices, b"5\n1,000\n"), None);
        assert_eq!(read(&free, b"\n ?\nA B\n").as_deref(), Some("A B\n"));
        assert_eq!(read(&free, b"\n"), None);
    }

    #[test]
    fn prediction_is_compared_by_its_words() {
        for prediction in ["D A B C\n", "d, a, b, c", "  d a  b c ", "DABC", "D, A, B and C"] {
            assert!(is_same(prediction, "D A B C"), "{prediction}");
        }
        for prediction in ["", "A B C D", "D A B", "20"] {
            assert!(!is_same(prediction, "D A B C"), "{prediction}");
        }
        assert!(is_same("299 and 128", "299 128"));
        assert!(!is_same("299128", "299 128"));
        assert!(!is_same("12", "1 2"));
    }
}
