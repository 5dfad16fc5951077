//! The description of a test, as the test program lists it.

use boot::qemu::{Configuration, Firmware};
use boot_protocol::report::listed;

/// A test in the kernel, as its [`Plan`](boot_protocol::report::Plan) describes it to the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Test {
    /// The name of the test, in the form `module::function`.
    pub name: String,
    /// The numbers of CPUs with which the test runs, once for each number.
    pub cpus: Vec<u32>,
    /// The time limit of the test, in seconds.
    pub seconds: u32,
    /// The machine's memory in MiB.
    pub memory: u32,
    /// The status with which the test must end the machine, or `None` if it must not end the machine.
    pub status: Option<u8>,
    /// The texts that the console must show during the test, in this order.
    pub texts: Vec<String>,
    /// Options for the kernel.
    pub options: Vec<String>,
    /// Arguments for the program, in addition to the name of the test.
    pub arguments: Vec<String>,
    /// Whether no other test may run in the same boot.
    pub isolated: bool,
    /// Whether QEMU counts instructions instead of time.
    pub icount: bool,
    /// Whether the test runs only on request.
    pub ignored: bool,
    /// Whether `cargo test` omits the test, because another test runs it by name.
    pub hidden: bool,
}

impl Test {
    /// Parses a line that lists a test. Returns `None` if the line lists no test, or if an attribute in it is unknown
    /// or malformed. A program built with another version of `boot-protocol` may print such an attribute.
    pub fn parse(line: &str) -> Option<Self> {
        let (name, attributes) = listed(line)?;
        let mut test = Self { name: name.to_owned(), ..Self::default() };
        for attribute in attributes {
            let attribute = attribute.to_string();
            let (key, value) = attribute.split_once('=')?;
            match key {
                "cpus" => test.cpus = value.split(',').map(|count| count.parse().ok()).collect::<Option<_>>()?,
                "seconds" => test.seconds = value.parse().ok()?,
                "memory" => test.memory = value.parse().ok()?,
                "status" => test.status = Some(value.parse().ok()?),
                "text" => test.texts.push(value.to_owned()),
                "option" => test.options.push(value.to_owned()),
                "argument" => test.arguments.push(value.to_owned()),
                "isolated" => test.isolated = true,
                "icount" => test.icount = true,
                "ignored" => test.ignored = true,
                "hidden" => test.hidden = true,
                _ => return None,
            }
        }
        Some(test)
    }

    /// The name of this test on `cpus` CPUs, for `cargo test`.
    pub fn trial_name(&self, cpus: u32) -> String {
        format!("smp{cpus}::{}", self.name)
    }

    /// Returns the configuration of the machine for this test.
    pub fn configuration(&self, firmware: Firmware, cpus: u32) -> Configuration {
        // The guest test `machine::all_cpus_are_up` checks that the machine has this number of CPUs.
        let mut kernel_options = vec![format!("program.smp={cpus}")];
        kernel_options.extend(self.options.iter().cloned());
        let (memory, icount) = (self.memory, self.icount);
        Configuration { cpus, memory, icount, firmware, kernel_options, ..Configuration::default() }
    }
}

#[cfg(test)]
mod tests {
    use boot_protocol::report::Plan;

    use super::*;

    #[test]
    fn what_a_plan_says_arrives() {
        let plan = Plan {
            name: "heap::grows",
            cpus: &[1, 2, 8],
            seconds: 7,
            memory: 64,
            status: Some(102),
            texts: &["two words", "key=value", r#"a "quote" and a \"#, ""],
            options: &["log=debug"],
            arguments: &["", "a b"],
            isolated: true,
            icount: true,
            ignored: true,
            hidden: true,
        };
        let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        let test = Test {
            name: "heap::grows".into(),
            cpus: vec![1, 2, 8],
            seconds: 7,
            memory: 64,
            status: Some(102),
            texts: owned(plan.texts),
            options: owned(plan.options),
            arguments: owned(plan.arguments),
            isolated: true,
            icount: true,
            ignored: true,
            hidden: true,
        };
        assert_eq!(Test::parse(&plan.to_string()), Some(test.clone()));
        let plan = Plan { status: None, isolated: false, icount: false, ignored: false, hidden: false, ..plan };
        let test = Test { status: None, isolated: false, icount: false, ignored: false, hidden: false, ..test };
        assert_eq!(Test::parse(&plan.to_string()), Some(test));
    }

    #[test]
    fn unknown_lines_are_not_parsed() {
        for line in ["@@test list", "@@test list a speed=fast", "@@test list a cpus=two", "@@test list a cpus"] {
            assert_eq!(Test::parse(line), None, "{line}");
        }
    }
}
