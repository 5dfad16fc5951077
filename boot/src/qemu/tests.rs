//! The QEMU command for several configurations.

use std::fs;

use super::*;

fn command(configuration: &Configuration, arguments: &[&str]) -> String {
    let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
    let words = configuration.qemu_arguments(Path::new("/t/tour"), &arguments).expect("arguments");
    shell_quoted(words.iter().map(AsRef::as_ref))
}

#[test]
fn the_default_machine() {
    assert_eq!(
        command(&Configuration::default(), &[]),
        "-machine q35 -nodefaults -display none -no-reboot -accel 'tcg,thread=multi' -smp 8 -m 1024 -serial stdio \
         -chardev 'file,id=bulk,path=/dev/stdout,append=on' \
         -device 'virtio-serial-pci,disable-legacy=on,max_ports=2,ioeventfd=off' \
         -device 'virtserialport,chardev=bulk' -device 'virtio-rng-pci,id=random,disable-legacy=on' \
         -device 'isa-debug-exit,iobase=0xf4,iosize=0x04' -cpu max -kernel /t/tour -append --"
    );
}

#[test]
fn virtio_console_is_absent_if_runs_must_be_equal_or_the_kernel_does_not_use_it() {
    let options = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
    for (icount, words, is_there) in [
        (false, &["log=debug"][..], true),
        (true, &[], false),
        (false, &["console=serial"], false),
        (false, &["console=polled"], false),
        (false, &["console=serial", "console=virtio"], true),
    ] {
        let configuration = Configuration { icount, kernel_options: options(words), ..Configuration::default() };
        let command = command(&configuration, &[]);
        assert_eq!(command.contains("-device 'virtserialport,"), is_there, "{command}");
    }
}

#[test]
fn entropy_device_is_absent_if_runs_must_be_equal() {
    for (icount, options, is_there) in
        [(false, &["log=debug"][..], true), (true, &[], false), (false, &["seed=7"], false)]
    {
        let kernel_options = options.iter().map(|&word| word.to_owned()).collect();
        let command = command(&Configuration { icount, kernel_options, ..Configuration::default() }, &[]);
        assert_eq!(command.contains("-device 'virtio-rng-pci,"), is_there, "{command}");
    }
}

#[test]
fn terminal_is_announced_unless_runs_must_be_equal() {
    let of = |icount, is_terminal| {
        let kernel_options = vec!["log=debug".to_owned()];
        Configuration { icount, kernel_options, ..Configuration::default() }.with_stderr(is_terminal).kernel_options
    };
    assert_eq!(of(false, true), ["stderr=terminal", "log=debug"]);
    assert_eq!(of(false, false), ["log=debug"]);
    assert_eq!(of(true, true), ["log=debug"]);
}

#[test]
fn each_part_of_a_configuration_is_in_the_command() {
    let configuration = Configuration {
        cpus: 2,
        memory: 64,
        icount: true,
        cpu_model: "qemu64,+x".into(),
        kernel_options: vec!["log=debug".into()],
        gdb_port: Some(1234),
        qemu_arguments: vec!["-d".into(), "int".into()],
        ..Configuration::default()
    };
    let command = command(&configuration, &["two words"]);
    for part in [
        "-smp 2 -m 64 ",
        "-accel 'tcg,thread=single' -icount 'shift=0,sleep=off' -rtc 'clock=vm,base=2000-01-01' ",
        "-S -gdb tcp:127.0.0.1:1234 ",
        "-cpu 'qemu64,+x' ",
        "-d int ",
        r#"-append 'halt_poll_us=1000 timer_align=on seed=0 log=debug -- "two words"'"#,
    ] {
        assert!(command.contains(part), "{part} is not in {command}");
    }
}

#[test]
fn firmware_boots_from_the_image_and_gets_no_command_line() {
    let bios = Configuration { firmware: Firmware::Bios, ..Configuration::default() };
    let words = command(&bios, &["word"]);
    let end = "-drive 'if=none,id=boot,format=raw,file=/t/tour' -device 'ide-hd,drive=boot,bootindex=0' -device VGA";
    assert!(words.ends_with(end) && !words.contains("-append"), "{words}");
    assert_eq!(bios.command_line(&["word".to_owned()]).expect("a line"), "-- word");
}

#[test]
fn instructions_are_counted_only_where_they_are_translated() {
    let kvm = Configuration { accelerator: Accelerator::Kvm, ..Configuration::default() };
    assert!(command(&kvm, &[]).contains("-accel kvm "));
    let both = Configuration { icount: true, ..kvm };
    assert!(matches!(both.qemu_arguments(Path::new("x"), &[]), Err(Error::Usage(_))));
}

#[test]
fn disks_keep_their_names_and_lengths() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).expect("written");
        path
    };
    let odd = Disk::open(file("a, b:c", "odd").as_ref(), Access::ReadOnly).expect("a disk");
    let empty = Disk::open(file("empty", "").as_ref(), Access::ReadWrite).expect("a disk");
    let place = directory.path().to_str().expect("text");
    let command = command(&Configuration { disks: vec![odd, empty], ..Configuration::default() }, &[]);
    for part in [
        format!("-drive 'if=none,id=d0,format=raw,readonly=on,werror=report,rerror=report,file={place}/a,, b:c' "),
        "-device 'virtio-blk-pci,drive=d0,disable-legacy=on' ".to_owned(),
        format!("-drive 'if=none,id=d1,format=raw,readonly=off,werror=report,rerror=report,file={place}/empty' "),
        format!(r#"-append '"disk={place}/a, b:c:3" disk={place}/empty:0 --'"#),
    ] {
        assert!(command.contains(&part), "{part} is not in {command}");
    }
}

#[test]
fn network_leads_from_ports_of_the_host_and_its_frames_go_to_a_file() {
    let ports = vec![
        Port { protocol: Protocol::Tcp, host: 8080, guest: 80 },
        Port { protocol: Protocol::Udp, host: 5353, guest: 53 },
    ];
    let capture = Some("/t/a, b:c".into());
    let command = command(&Configuration { net: Net::User, ports, capture, ..Configuration::default() }, &[]);
    for part in [
        "-netdev 'user,id=net,hostfwd=tcp:127.0.0.1:8080-:80,hostfwd=udp:127.0.0.1:5353-:53' ",
        "-device 'virtio-net-pci,netdev=net,disable-legacy=on,romfile=' ",
        "-object 'filter-dump,id=capture,netdev=net,file=/t/a,, b:c' ",
    ] {
        assert!(command.contains(part), "{part} is not in {command}");
    }
}

#[test]
fn tap_device_is_that_of_the_host_and_no_script_runs() {
    let command = command(&Configuration { net: Net::Tap("tap0".into()), ..Configuration::default() }, &[]);
    assert!(command.contains("-netdev 'tap,id=net,ifname=tap0,script=no,downscript=no' "), "{command}");
}

#[test]
fn words_that_are_not_unicode_are_quoted_for_the_shell() {
    use std::os::unix::ffi::OsStrExt as _;

    let words: [&[u8]; 3] = [b"a", b"b 'c'", b"\xff'\\ \n"];
    let quoted = shell_quoted(words.map(OsStr::from_bytes));
    assert_eq!(quoted, r#"a "b 'c'" $'\xff\'\\ \n'"#);
    let printed = std::process::Command::new("bash").args(["-c", &format!("printf '%s|' {quoted}")]).output();
    assert_eq!(printed.expect("bash").stdout, b"a|b 'c'|\xff'\\ \n|");
}

#[test]
fn disks_have_as_many_slots_as_other_devices_leave() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("disk");
    fs::write(&file, "x").expect("written");
    let disk = Disk::open(file.as_ref(), Access::ReadOnly).expect("a disk");
    for (icount, net, memories, room) in [
        (false, Net::None, 0, 28),
        (false, Net::None, 2, 26),
        (false, Net::User, 0, 27),
        (true, Net::None, 0, 30),
        (true, Net::User, 1, 29),
    ] {
        let with = |count| Configuration {
            icount,
            net: net.clone(),
            disks: vec![disk.clone(); count],
            ..Configuration::default()
        };
        assert_eq!(with(room).check_bus(memories), Ok(()));
        let error = with(room + 1).check_bus(memories).expect_err("no room").to_string();
        let expected = format!("--disk: the machine has room for {room} disks, and not for {}", room + 1);
        assert_eq!(error, expected);
    }
}

#[test]
fn file_that_is_no_disk_is_refused_by_name() {
    for (name, why) in [("/no/such/file", "No such file"), ("/", "not a regular"), ("/dev/null", "not a regular")] {
        let error = Disk::open(name.as_ref(), Access::ReadOnly).expect_err("no disk").to_string();
        assert!(error.contains(&format!("`{name}`")) && error.contains(why), "{error}");
    }
}

#[test]
fn command_line_that_is_too_long_for_a_guest_is_refused() {
    let fits = "x".repeat(CAPACITY - 1 - "-- ".len());
    assert!(command(&Configuration::default(), &[&fits]).ends_with("x'"));
    let error = Configuration::default().qemu_arguments(Path::new("x"), &[fits + "x"]).expect_err("too long");
    assert!(error.to_string().contains("4096 bytes"), "{error}");
}
