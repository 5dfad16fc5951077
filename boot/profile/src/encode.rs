//! Turns samples into a profile in pprof's format.

use crate::frames::{self, Inner, resolve};
use crate::pprof::{Function, Label, Line, Location, Mapping, Numbers, PprofProfile, Sample, ValueType};
use crate::samples;
use crate::symbols::{Frame, Symbols};

/// The names of the two values that each sample of a profile has.
#[derive(Clone, Copy)]
pub(crate) struct Values {
    /// The name of the value that counts the events.
    pub(crate) count: &'static str,
    /// The name of the value that is the total time of the events.
    pub(crate) time: &'static str,
}

/// Returns the profile in pprof's format. `program` is the name of the program.
pub(crate) fn encode(
    samples: &[samples::Sample],
    inner: Inner,
    values: Values,
    symbols: &Symbols,
    program: &str,
) -> PprofProfile {
    let mut builder = Builder {
        // The format requires that the first text is empty.
        profile: PprofProfile { string_table: vec![String::new()], ..PprofProfile::default() },
        texts: Numbers::none(),
        functions: Numbers::none(),
        locations: Numbers::none(),
    };
    let count = builder.value_type(values.count, "count");
    let time = builder.value_type(values.time, "nanoseconds");
    let filename = builder.text(program);
    let addresses = || samples.iter().flat_map(|sample| &sample.stack).copied();
    let profile = &mut builder.profile;
    profile.sample_type = vec![count, time.clone()];
    profile.period_type = Some(time);
    // The period is the mean time of one event: of a wait, an unlock or an interrupt.
    let sum = |value: fn(&samples::Sample) -> u64| samples.iter().map(value).sum::<u64>();
    profile.period = number(sum(|sample| sample.nanoseconds) / sum(|sample| sample.count).max(1));
    profile.mapping = vec![Mapping {
        id: MAPPING,
        memory_start: addresses().min().unwrap_or(0),
        memory_limit: addresses().max().unwrap_or(0).saturating_add(1),
        filename,
        has_functions: true,
        has_filenames: true,
        has_line_numbers: true,
        has_inline_frames: true,
    }];
    for sample in samples {
        builder.sample(sample, resolve(symbols, &sample.stack, inner));
    }
    builder.profile
}

/// The number of the only mapping.
const MAPPING: u64 = 1;

fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

struct Builder {
    profile: PprofProfile,
    texts: Numbers<String>,
    functions: Numbers<(String, String)>,
    locations: Numbers<frames::Location>,
}

impl Builder {
    fn text(&mut self, text: &str) -> i64 {
        if text.is_empty() {
            return 0;
        }
        let (id, is_new) = self.texts.of(text.to_owned());
        if is_new {
            self.profile.string_table.push(text.to_owned());
        }
        number(id)
    }

    fn value_type(&mut self, name: &str, unit: &str) -> ValueType {
        ValueType { r#type: self.text(name), unit: self.text(unit) }
    }

    fn sample(&mut self, sample: &samples::Sample, locations: Vec<frames::Location>) {
        let location_id = locations.into_iter().map(|location| self.location(location)).collect();
        let label = sample.reason.map(|reason| Label { key: self.text("reason"), str: self.text(&reason.to_string()) });
        let value = vec![number(sample.count), number(sample.nanoseconds)];
        self.profile.sample.push(Sample { location_id, value, label: label.into_iter().collect() });
    }

    fn location(&mut self, location: frames::Location) -> u64 {
        let (id, is_new) = self.locations.of(location.clone());
        if is_new {
            let line = location.frames.iter().map(|frame| self.line(frame)).collect();
            self.profile.location.push(Location { id, mapping_id: MAPPING, address: location.address, line });
        }
        id
    }

    fn line(&mut self, frame: &Frame) -> Line {
        let (function_id, is_new) = self.functions.of((frame.function.clone(), frame.file.clone()));
        if is_new {
            let (name, filename) = (self.text(&frame.function), self.text(&frame.file));
            self.profile.function.push(Function { id: function_id, name, system_name: name, filename });
        }
        Line { function_id, line: frame.line.into() }
    }
}
