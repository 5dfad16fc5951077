//! Grades what a whole class has handed in: one file for each student.
//!
//! Each grade is a file of its own, which is written when the submission has been graded. So after an interruption, the same
//! command grades only the rest, and several computers can each grade a part of the class into one folder. The table and the
//! page are made of all grades in the folder.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Mutex;
use std::thread;

use serde::{Deserialize, Serialize};

use crate::contest::{self, Entry};
use crate::error::{Error, Result};
use crate::filling::Filling;
use crate::lab::Lab;
use crate::program::has_qemu;
use crate::report::Grade;
use crate::run::{NOT_RUN, check_copy};
use crate::tree::{Tree, entries};
use crate::write;

/// A part of a class: `2/5` is the second of five parts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Shard {
    number: usize,
    of: usize,
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> core::result::Result<Self, String> {
        let parts = text.split_once('/').and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        let shard = parts.filter(|&(number, of)| 1 <= number && number <= of);
        let (number, of) = shard.ok_or("a part of a class is written like 2/5, the second of five")?;
        Ok(Self { number, of })
    }
}

/// What became of a submission.
#[derive(Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    /// The text that was graded. If the student hands in another text, it is graded again.
    submission: String,
    /// A hash of the grader's files at the time (see [`fingerprint`]). If they change, the submission is graded again.
    grader: String,
    points: u32,
    /// The word of each check's verdict, by the check's name. Empty if the submission was refused.
    verdicts: BTreeMap<String, String>,
    /// The figures of the lab's contest, if all checks have passed.
    #[serde(default)]
    figures: Option<Vec<Option<u64>>>,
    /// Why the submission was not graded.
    refused: Option<String>,
    /// What the student reads.
    report: String,
}

/// Grades the submissions of `lab` in `folder` that belong to `shard`, `jobs` of them at the same time. Writes the grades, a
/// table and a page to `output`.
pub(crate) fn grade(
    lab: &Lab,
    root: &Path,
    folder: &Path,
    output: &Path,
    shard: Shard,
    jobs: NonZero<usize>,
) -> Result<()> {
    let submissions = submissions(lab, folder)?;
    if submissions.is_empty() {
        let number = lab.number;
        return Err(Error::new(format!(
            "{} has no files NAME.rs and no folders NAME with a file lab-{number}.rs",
            folder.display()
        )));
    }
    fs::create_dir_all(output).map_err(|error| Error::file("make", output, &error))?;
    let trees: Vec<Tree> = (0..jobs.get()).map(|number| Tree::copy_number(root, number)).collect::<Result<_>>()?;
    let grader = fingerprint(root)?;
    let waiting: Vec<_> = submissions.iter().skip(shard.number - 1).step_by(shard.of).collect();
    let waiting = Mutex::new(waiting.into_iter());
    let next = || waiting.lock().expect("no panic").next();
    let grade = |tree: &Tree, name: &String, path: &Path| -> Result<()> {
        let record = output.join(format!("{name}.json"));
        let before = Record::read(&record);
        let submission = read(path)?;
        if before.as_ref().is_some_and(|before| before.is_of(&submission, &grader)) {
            return Ok(());
        }
        let now = judge(lab, tree, &submission, &grader)?;
        write(&record, &(serde_json::to_string_pretty(&now).expect("it is plain data") + "\n"))?;
        println!("{name}: {}", change(before.as_ref(), &now, lab));
        Ok(())
    };
    thread::scope(|scope| {
        let work = |tree: Tree| -> Result<()> {
            while let Some((name, path)) = next() {
                grade(&tree, name, path).map_err(|error| {
                    // The same error may occur again, so no thread begins with another submission.
                    waiting.lock().expect("no panic").by_ref().for_each(drop);
                    Error::new(format!(
                        "{} is not graded, and no others are begun: {error}\nIf the command fails again at this file, and only at it, move the file away",
                        path.display()
                    ))
                })?;
            }
            Ok(())
        };
        let workers: Vec<_> = trees.into_iter().map(|tree| scope.spawn(move || work(tree))).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("no panic"))
    })?;
    let records: Vec<_> = submissions
        .keys()
        .filter_map(|name| Some((name, Record::read(&output.join(format!("{name}.json")))?)))
        .collect();
    write(&output.join("grades.csv"), &table(lab, &records))?;
    write(&output.join("grades.html"), &page(lab, &records))?;
    if !lab.figures.is_empty() {
        let entry = |(name, record): &(&String, Record)| Some(Entry::new(lab, name, record.figures.clone()?));
        let entries: Vec<Entry> = records.iter().filter_map(entry).collect();
        write(&output.join("board.csv"), &contest::table(lab, &entries))?;
        write(&output.join("board.html"), &contest::page(lab, &entries))?;
    }
    let missing = submissions.len() - records.len();
    let mut rest = if missing > 0 { format!("; {missing} are not graded yet") } else { String::new() };
    let is_final = |(name, record): &&(&String, Record)| {
        read(&submissions[*name]).is_ok_and(|submission| record.is_of(&submission, &grader))
    };
    let open = records.len() - records.iter().filter(is_final).count();
    if open > 0 {
        let _ = write!(
            rest,
            "; not final: {open}, because a check was not run, or the submission or the grader has changed"
        );
    }
    println!(
        "{} of {} submissions{rest}: see {}",
        records.len(),
        submissions.len(),
        output.join("grades.html").display()
    );
    Ok(())
}

/// The submissions in `folder`, by the names of the students.
fn submissions(lab: &Lab, folder: &Path) -> Result<BTreeMap<String, PathBuf>> {
    let entries = fs::read_dir(folder).map_err(|error| Error::file("read", folder, &error))?;
    let mut submissions = BTreeMap::new();
    for entry in entries {
        let path = entry.map_err(|error| Error::file("read", folder, &error))?.path();
        let inside = path.join(format!("lab-{}.rs", lab.number));
        let file = if path.is_dir() { inside } else { path.clone() };
        let name = if path.is_dir() { path.file_name() } else { path.file_stem() };
        let name = name.unwrap_or_default().to_string_lossy().into_owned();
        if file.is_file()
            && file.extension() == Some(OsStr::new("rs"))
            && submissions.insert(name.clone(), file).is_some()
        {
            return Err(Error::new(format!("{name} has handed in both a file and a folder")));
        }
    }
    Ok(submissions)
}

/// Returns the text of a submission. A student may hand in any file, so bytes that are not UTF-8 are replaced.
fn read(path: &Path) -> Result<String> {
    let submission = fs::read(path).map_err(|error| Error::file("read", path, &error))?;
    Ok(String::from_utf8_lossy(&submission).into_owned())
}

/// Returns a hash of the files on which a grade depends: the scheduler, the checks, the grader and the machine. A new
/// compiler is not noticed.
fn fingerprint(root: &Path) -> Result<String> {
    let mut hasher = DefaultHasher::new();
    for part in ["Cargo.lock", "Cargo.toml", "boot", "gmp-sched/Cargo.toml", "gmp-sched/src", "kernel", "labs"] {
        hash(&root.join(part), &mut hasher)?;
    }
    Ok(format!("{:016x}", hasher.finish()))
}

/// Hashes a file, or the names and the contents of all files in a folder.
fn hash(path: &Path, hasher: &mut DefaultHasher) -> Result<()> {
    if !path.is_dir() {
        fs::read(path).map_err(|error| Error::file("read", path, &error))?.hash(hasher);
        return Ok(());
    }
    for (name, path) in entries(path)? {
        name.hash(hasher);
        hash(&path, hasher)?;
    }
    Ok(())
}

/// Grades one submission in `tree`.
fn judge(lab: &Lab, tree: &Tree, submission: &str, grader: &str) -> Result<Record> {
    let mut record = Record {
        submission: submission.to_string(),
        grader: grader.to_string(),
        points: 0,
        verdicts: BTreeMap::new(),
        figures: None,
        refused: None,
        report: String::new(),
    };
    let filling =
        Filling::parse(submission).and_then(|filling| filling.check(&lab.holes, &lab.allows).map(|()| filling));
    match filling {
        Ok(filling) => {
            filling.fill(tree.root(), &lab.holes)?;
            let outcome = check_copy(lab, tree)?;
            let grade = Grade::new(lab, &outcome);
            record.points = grade.points();
            record.verdicts = grade.words().map(|(check, word)| (check.to_string(), word.to_string())).collect();
            record.report = grade.to_string();
            if grade.failed().is_empty() && !lab.figures.is_empty() {
                record.figures = Some(contest::measure(lab, tree)?);
            }
        }
        Err(reason) => {
            record.report = format!("This is not graded: {reason}\n");
            record.refused = Some(reason);
        }
    }
    Ok(record)
}

impl Record {
    /// Returns the grade in a file. A file that is not complete counts as none.
    fn read(path: &Path) -> Option<Self> {
        serde_json::from_str(&fs::read_to_string(path).ok()?).ok()
    }

    /// Whether it is the final grade of `submission` by `grader`.
    fn is_of(&self, submission: &str, grader: &str) -> bool {
        self.submission == submission && self.grader == grader && self.lacks().next().is_none() && !self.lacks_figures()
    }

    /// The checks that this computer could not run.
    fn lacks(&self) -> impl Iterator<Item = &String> {
        self.verdicts.iter().filter(|(_, word)| *word == NOT_RUN).map(|(name, _)| name)
    }

    /// Whether figures are missing that could be measured here.
    fn lacks_figures(&self) -> bool {
        has_qemu() && self.figures.iter().flatten().any(Option::is_none)
    }
}

/// Describes the grade `now`. If the student had an earlier grade, also says what has changed.
fn change(before: Option<&Record>, now: &Record, lab: &Lab) -> String {
    let mut text = format!("{} of {} points", now.points, lab.points());
    if let Some(reason) = &now.refused {
        let _ = write!(text, "; not graded: {reason}");
    }
    for check in now.lacks() {
        let _ = write!(text, "; {check}: {}", now.verdicts[check]);
    }
    if let Some(before) = before {
        let _ = write!(text, "; {} before", before.points);
        for check in &lab.checks {
            let word = |record: &Record| record.verdicts.get(&check.name).cloned().unwrap_or_else(|| "-".to_string());
            let (old, new) = (word(before), word(now));
            if old != new {
                let _ = write!(text, "; {}: {old}, now {new}", check.name);
            }
        }
    }
    text
}

/// Returns `field` as a field of a table of comma-separated values.
pub(crate) fn quoted(field: &str) -> String {
    format!("\"{}\"", field.replace('"', "\"\""))
}

/// The grades as comma-separated values: a line for each student.
fn table(lab: &Lab, records: &[(&String, Record)]) -> String {
    let heads =
        ["name", "points"].into_iter().chain(lab.checks.iter().map(|check| check.name.as_str())).chain(["refused"]);
    let mut table = heads.map(quoted).collect::<Vec<_>>().join(",") + "\n";
    for (name, record) in records {
        let words = lab.checks.iter().map(|check| record.verdicts.get(&check.name).map_or("-", String::as_str));
        let mut fields = vec![quoted(name), record.points.to_string()];
        fields.extend(words.map(quoted));
        fields.push(quoted(record.refused.as_deref().unwrap_or("")));
        table += &(fields.join(",") + "\n");
    }
    table
}

/// How many groups of points the page shows, besides that of the submissions with all points.
const GROUPS: u32 = 10;

/// A page with the distribution of the points, and the checks, beginning with the one that failed most often.
fn page(lab: &Lab, records: &[(&String, Record)]) -> String {
    let total = lab.points().max(1);
    let mut groups = [0; GROUPS as usize + 1];
    for (_, record) in records {
        groups[(record.points * GROUPS / total) as usize] += 1;
    }
    let label = |group: u32| match group {
        GROUPS => format!("{total}"),
        _ => format!("{} to {}", (group * total).div_ceil(GROUPS), ((group + 1) * total).div_ceil(GROUPS) - 1),
    };
    let points = (0..=GROUPS).map(|group| (label(group), groups[group as usize]));
    let mut failures: Vec<(String, usize)> = lab
        .checks
        .iter()
        .map(|check| {
            let failed = |record: &Record| record.verdicts.get(&check.name).is_none_or(|word| word != "ok");
            let text = format!("<b>{}</b>: {}", escaped(&check.name), escaped(&check.property));
            (text, records.iter().filter(|(_, record)| failed(record)).count())
        })
        .collect();
    failures.sort_by_key(|(_, count)| core::cmp::Reverse(*count));
    format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>Lab {number}: grades</title><style>{STYLE}td:first-child{{text-align:left}}\
         td:last-child{{width:40%}}meter{{width:100%}}</style>\n<h1>Lab {number}: {title}</h1>\n\
         <p>{count} submissions, {refused} of them refused.</p>\n\
         <h2>Points</h2>\n{points}\n<h2>Checks that failed</h2>\n{failures}\n</html>\n",
        number = lab.number,
        title = escaped(&lab.title),
        count = records.len(),
        refused = records.iter().filter(|(_, record)| record.refused.is_some()).count(),
        points = bars(points, records.len()),
        failures = bars(failures.into_iter(), records.len()),
    )
}

/// The style of the pages of a class, for light and dark screens.
pub(crate) const STYLE: &str = ":root{color-scheme:light dark;font:16px/1.5 system-ui,sans-serif}\
    body{max-width:50em;margin:2em auto;padding:0 1em}table{width:100%;border-collapse:collapse}\
    th,td{padding:.15em .5em;vertical-align:top;text-align:right;font-variant-numeric:tabular-nums}";

/// A table with a bar in each row. A bar of the full length means `most`.
fn bars(rows: impl Iterator<Item = (String, usize)>, most: usize) -> String {
    let rows: String = rows
        .map(|(label, count)| {
            format!("<tr><td>{label}<td>{count}<td><meter min=\"0\" max=\"{most}\" value=\"{count}\">{count}</meter>\n")
        })
        .collect();
    format!("<table>\n{rows}</table>")
}

pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{Record, Shard, change, page, table};
    use crate::lab::Lab;

    const LAB: &str = "title = 'One <two>'\ntask = ''\n[[hole]]\nfile = 'a.rs'\nname = 'a'\n\
                       [[check]]\nname = 'first'\npoints = 60\nproperty = 'It is'\ntests = ['a']\nsee = ''\n\
                       [[check]]\nname = 'second'\npoints = 40\nproperty = 'It was'\ntests = ['b']\nsee = ''\n";

    fn record(points: u32, words: [&str; 2]) -> Record {
        let names = ["first", "second"].map(str::to_string);
        let verdicts = BTreeMap::from_iter(names.into_iter().zip(words.map(str::to_string)));
        let (submission, grader, report) = Default::default();
        Record { submission, grader, points, verdicts, figures: None, refused: None, report }
    }

    #[test]
    fn table_and_page_have_each_student() {
        let lab: Lab = toml::from_str(LAB).unwrap();
        let names = ["Ann, \"A\"", "Bob"].map(str::to_string);
        let refused =
            Record { refused: Some("contains `std`".to_string()), verdicts: BTreeMap::new(), ..record(0, ["", ""]) };
        let records = [(&names[0], record(60, ["ok", "HANGS"])), (&names[1], refused)];
        assert_eq!(
            table(&lab, &records),
            "\"name\",\"points\",\"first\",\"second\",\"refused\"\n\
             \"Ann, \"\"A\"\"\",60,\"ok\",\"HANGS\",\"\"\n\"Bob\",0,\"-\",\"-\",\"contains `std`\"\n"
        );
        let page = page(&lab, &records);
        assert!(page.contains("One &lt;two&gt;") && page.contains("2 submissions, 1 of them refused"), "{page}");
        assert!(
            page.contains("<td>60 to 69<td>1") && page.contains("<td>0 to 9<td>1") && page.contains("<td>100<td>0"),
            "{page}"
        );
        // `second` failed twice, so it comes before `first`.
        assert!(page.find("<b>second</b>").unwrap() < page.find("<b>first</b>").unwrap(), "{page}");
    }

    #[test]
    fn regrade_says_what_has_changed() {
        let lab: Lab = toml::from_str(LAB).unwrap();
        let (before, now) = (record(60, ["ok", "FAILED"]), record(100, ["ok", "ok"]));
        assert_eq!(change(None, &now, &lab), "100 of 100 points");
        assert_eq!(change(Some(&before), &now, &lab), "100 of 100 points; 60 before; second: FAILED, now ok");
    }

    #[test]
    fn grade_without_the_result_of_a_check_is_not_final() {
        let lab: Lab = toml::from_str(LAB).unwrap();
        assert!(record(60, ["ok", "FAILED"]).is_of("", ""));
        assert!(!record(60, ["ok", "FAILED"]).is_of("other", ""));
        let record = record(60, ["ok", "not run"]);
        assert!(!record.is_of("", ""));
        assert_eq!(change(None, &record, &lab), "60 of 100 points; second: not run");
    }

    #[test]
    fn shard_is_a_part_of_the_whole() {
        assert_eq!("2/5".parse(), Ok(Shard { number: 2, of: 5 }));
        for text in ["0/5", "6/5", "2", "a/b", "1/0"] {
            assert!(text.parse::<Shard>().is_err(), "{text}");
        }
    }
}
