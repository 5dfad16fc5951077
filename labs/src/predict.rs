//! Questions about what the scheduler does: one predicts the answer, and a run shows it.

use std::io::BufRead;

use crate::error::{Error, Result};
use crate::lab::Lab;
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
        NotBuilt::DoesNotCompile(errors) => Error::new(format!("the code does not compile:\n{errors}")),
        NotBuilt::Error(error) => error,
    })?;
    let mut right = 0;
    for (question, number) in lab.questions.iter().zip(1..) {
        println!("{number}. {}", question.text.trim());
        let mut prediction = String::new();
        let read = input.read_line(&mut prediction).map_err(|error| Error::new(format!("cannot read: {error}")))?;
        if read == 0 {
            println!("(no prediction: the input has ended)");
            return Ok(false);
        }
        let file = tree.root().join(format!("target/lab/lab-{}-question-{number}", lab.number));
        let trace = file.with_extension("trace");
        let Some(answer) = answer(&built.path, &question.run, Some(&trace))? else {
            println!("The run does not end as it should: with the scheduler of this branch, there is no answer.\n");
            continue;
        };
        let is_right = is_same(&prediction, &answer);
        right += usize::from(is_right);
        println!("{} {answer}", if is_right { "Right:" } else { "No, it is" });
        println!("{}", question.why.trim());
        if trace.exists() {
            convert(tree.root(), &trace, &file)?;
            println!("See it: open {}", file.with_extension("html").display());
        }
        println!();
    }
    println!("{right} of {} predictions were right", lab.questions.len());
    Ok(right == lab.questions.len())
}

/// Whether a prediction is the answer: capitals, commas and spaces do not count.
fn is_same(prediction: &str, answer: &str) -> bool {
    let words = |text: &str| -> Vec<String> {
        let parts = text.split(|character: char| !character.is_alphanumeric());
        parts.filter(|part| !part.is_empty()).map(str::to_lowercase).collect()
    };
    words(prediction) == words(answer)
}

#[cfg(test)]
mod tests {
    use super::is_same;

    #[test]
    fn prediction_is_compared_by_its_words() {
        for prediction in ["D A B C\n", "d, a, b, c", "  d a  b c "] {
            assert!(is_same(prediction, "D A B C"), "{prediction}");
        }
        for prediction in ["", "A B C D", "D A B", "20"] {
            assert!(!is_same(prediction, "D A B C"), "{prediction}");
        }
    }
}
