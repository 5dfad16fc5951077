//! Tests of how the command line is parsed, and of which command lines are refused.

use boot::qemu::Protocol;
use boot::{checkout, compare};

use super::*;

#[path = "../../../labs/src/documented.rs"]
mod documented;

fn order(words: &[&str]) -> Order {
    let cli = Cli::try_parse_from([&["boot"], words].concat()).expect("right use");
    match cli.request().expect("right use") {
        Request::Boot(order) => *order,
        other => panic!("{other:?}"),
    }
}

fn refusal(words: &[&str]) -> String {
    Cli::try_parse_from([&["boot"], words].concat()).expect_err("wrong use").to_string()
}

#[test]
fn the_definition_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn empty_command_line_boots_the_tour_on_the_default_machine() {
    let order = order(&[]);
    assert_eq!(order.program, DEFAULT);
    assert_eq!(order.options, Options::default());
    assert_eq!(order.configuration, Configuration::default());
    assert_eq!((order.limit, order.dry_run), (None, false));
}

#[test]
fn arguments_after_the_program_belong_to_it() {
    let parsed = order(&["--smp", "2", "greet", "--", "--smp", "3", "--", "--help", "", "-x"]);
    assert_eq!(parsed.configuration.cpus, 2);
    assert_eq!(parsed.program, "greet");
    assert_eq!(parsed.arguments, ["--smp", "3", "--", "--help", "", "-x"]);
    for arguments in [&["--help"][..], &["--list", "-x"], &["x", "--smp", "3"], &["--smpx"], &["-"], &[]] {
        assert_eq!(order(&[&["greet"], arguments].concat()).arguments, arguments);
    }
}

#[test]
fn options_directly_after_the_program_are_refused() {
    let refused = |words: &[&str]| {
        let cli = Cli::try_parse_from([&["boot"], words].concat()).expect("right use");
        cli.request().expect_err("refused").to_string()
    };
    assert_eq!(
        refused(&["tour", "--smp", "2", "a b"]),
        "`--smp` comes after the program. For the machine: cargo run -- --smp 2 'a b' tour. For the program: \
         cargo run -- tour -- --smp 2 'a b'"
    );
    assert!(refused(&["./crate", "--trace=x"]).contains("cargo run -- '--trace=x' ./crate. For"));
}

#[test]
fn options_set_what_they_name() {
    let order = order(&[
        "--memory=64",
        "--icount",
        "--timeout=1.5",
        "--debug",
        "--target=x86_64-unknown-none",
        "--cpu=qemu64",
        "--firmware=uefi",
        "--kernel-option=log=debug",
        "--kernel-option=procs=4",
        "--kernel-option=program.size=large",
        "--qemu-arg",
        "-d",
        "--qemu-arg=int",
        "--dry-run",
        "--bin=b",
        "./crate",
    ]);
    let expected = Configuration {
        memory: 64,
        icount: true,
        firmware: Firmware::Uefi,
        cpu_model: "qemu64".into(),
        kernel_options: vec!["log=debug".into(), "procs=4".into(), "program.size=large".into()],
        qemu_arguments: vec!["-d".into(), "int".into()],
        ..Configuration::default()
    };
    assert_eq!(order.configuration, expected);
    assert_eq!(order.options, Options { profile: Profile::Debug, target: Target::Bare });
    assert_eq!(order.limit, Some(Duration::from_millis(1500)));
    assert_eq!((order.dry_run, order.binary.as_deref()), (true, Some("b")));
}

#[test]
fn programs_are_built_quickly_unless_instructions_are_counted() {
    let profile = |words: &[&str]| order(words).options.profile;
    assert_eq!(profile(&["tour"]), Profile::Quick);
    assert_eq!(profile(&["--release", "tour"]), Profile::Release);
    assert_eq!(profile(&["--icount", "tour"]), Profile::Release);
    assert_eq!(profile(&["--icount", "--release", "tour"]), Profile::Release);
    assert_eq!(profile(&["--icount", "--debug", "tour"]), Profile::Debug);
}

#[test]
fn gdb_port_is_optional_and_never_the_program() {
    assert_eq!(order(&["--gdb", "greet"]).configuration.gdb_port, Some(1234));
    assert_eq!(order(&["--gdb", "greet"]).program, "greet");
    assert_eq!(order(&["--gdb=4321", "greet"]).configuration.gdb_port, Some(4321));
}

#[test]
fn time_of_an_event_is_exact() {
    let until = |time: &str| order(&["--icount", "--trace=x", "--until", time]).until;
    for time in ["351488009ns", "351488.009us", "351.488009ms", "0.351488009 s", "351488.009µs"] {
        assert_eq!(until(time), Some(Duration::from_nanos(351_488_009)), "{time}");
    }
    assert_eq!(order(&["--icount", "--profile=x", "--until=7us"]).configuration.gdb_port, Some(1234));
    assert_eq!(order(&["--icount", "--trace=x", "--until=7us", "--gdb=9"]).configuration.gdb_port, Some(9));
}

#[test]
fn image_is_written_only_for_a_firmware_that_boots_from_one() {
    assert_eq!(order(&["--firmware=bios", "--image=x.img"]).image, Some("x.img".into()));
    let cli = Cli::try_parse_from(["boot", "--image=x.img"]).expect("right use");
    assert!(matches!(cli.request(), Err(Error::Usage(text)) if text.contains("--firmware bios")));
}

#[test]
fn ports_imply_a_network_which_frames_need() {
    let configuration = order(&["--port=8080:80", "--port=udp:5353:53", "--pcap=x"]).configuration;
    let port = |protocol, host, guest| Port { protocol, host, guest };
    assert_eq!(configuration.ports, [port(Protocol::Tcp, 8080, 80), port(Protocol::Udp, 5353, 53)]);
    assert_eq!((configuration.net, configuration.capture), (Net::User, Some("x".into())));
    let configuration = order(&["--tap=tap0", "--pcap=x"]).configuration;
    assert_eq!((configuration.net, configuration.capture), (Net::Tap("tap0".into()), Some("x".into())));
    for net in [&[][..], &["--net=none"]] {
        let cli = Cli::try_parse_from([&["boot", "--pcap=x"], net].concat()).expect("right use");
        assert!(matches!(cli.request(), Err(Error::Usage(text)) if text.contains("add --net user")));
    }
}

#[test]
fn frames_of_a_recorded_run_are_written_and_those_of_its_repetition_are_not() {
    let recorded = ["--icount", "--net=user", "--record-input=r", "--pcap=x"];
    assert_eq!(order(&recorded).configuration.capture, Some("x".into()));
    let repeated = ["boot", "--icount", "--net=user", "--input-script=r", "--pcap=x"];
    let cli = Cli::try_parse_from(repeated).expect("right use");
    assert!(matches!(cli.request(), Err(Error::Usage(text)) if text.contains("the run with --record-input")));
}

#[test]
fn trace_is_an_option_of_the_kernel_too() {
    let order = order(&["--trace=run", "--kernel-option=log=debug"]);
    assert_eq!(order.trace, Some("run".into()));
    assert_eq!(order.configuration.kernel_options, ["trace=memory", "log=debug"]);
}

#[test]
fn a_refusal_names_what_is_wrong() {
    for (words, named) in [
        (&["--smp", "0"][..], "0 is not in 1..=255"),
        (&["--smp", "many"], "invalid digit"),
        (&["--smp", "256"], "256 is not in 1..=255"),
        (&["--memory", "1G"], "invalid digit"),
        (&["--memory", "1"], "1 is not in 2.."),
        (&["--timeout", "soon"], "not a number of seconds"),
        (&["--timeout", "0"], "not a time to wait for"),
        (&["--timeout", "-1"], "-1"),
        (&["--timeout", "inf"], "not a time to wait for"),
        (&["--kernel-option", "verbose"], "expected the form KEY=VALUE"),
        (&["--kernel-option", "=1"], "expected the form KEY=VALUE"),
        (&["--kernel-option", "silce_us=100"], "did you mean `slice_us`?"),
        (&["--kernel-option", "lgo=debug"], "did you mean `log`?"),
        (&["--kernel-option", "slice=100"], "did you mean `slice_us`?"),
        (&["--kernel-option", "Procs=1"], "did you mean `procs`?"),
        (&["--kernel-option", "size=1"], ": no option is named `size`; the kernel's are log, procs, "),
        (&["--kernel-option", "log=verbose"], "expected one of off, error, warn, info, debug, trace"),
        (&["--target", "riscv64"], "riscv64"),
        (&["--accel", "xen"], "tcg, kvm, hvf"),
        (&["--firmware", "coreboot"], "pvh, bios, uefi"),
        (&["--gdb=x"], "invalid digit"),
        (&["--gdb=0"], "number would be zero"),
        (&["--icount", "--until=7us"], "<--trace <FILE>|--profile <DIR>>"),
        (&["--trace=x", "--until=7us"], "--icount"),
        (&["--icount", "--trace=x", "--until=7"], "not a time in ns"),
        (&["--icount", "--trace=x", "--until=7.5ns"], "not a time in ns"),
        (&["--icount", "--trace=x", "--until=-7ns"], "not a time in ns"),
        (&["--debug", "--release"], "cannot be used with"),
        (&["--port", "8080"], "not two ports from 1 to 65535, such as 8080:80 or udp:5353:53"),
        (&["--port", "udp:0:53"], "not two ports"),
        (&["--port", "icmp:1:1"], "not two ports"),
        (&["--tap=tap0", "--port=1:1"], "cannot be used with"),
        (&["--tap=tap0,br=x"], "not the name of a network device, such as tap0"),
        (&["--tap="], "not the name of a network device"),
        (&["--tap=a-name-of-16-byt"], "not the name of a network device"),
        (&["--disk-rw"], "--disk"),
        (&["--no-such-option", "tour"], "'--no-such-option'"),
        (&["-x"], "'-x'"),
    ] {
        let text = refusal(words);
        assert!(text.contains(named), "{words:?}: {text}");
    }
}

#[test]
fn documents_show_commands_that_are_accepted() {
    documented::check("cargo run --", |words| match words {
        ["timeline", ..] => Ok(()),
        ["compare", words @ ..] => compare::arguments::parse(words.iter().map(OsString::from)).map(drop),
        _ => {
            let cli = Cli::try_parse_from([&["boot"], words].concat())?;
            let program = cli.command.first().and_then(|word| word.to_str()).unwrap_or(DEFAULT);
            let is_name =
                program != NEW && program.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
            let source = checkout::root().join("programs/src/bin").join(program);
            assert!(!is_name || source.is_dir() || source.with_extension("rs").exists(), "there is no {program}");
            Ok(())
        }
    });
}
