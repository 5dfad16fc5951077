//! Tests of the programs `ls` and `cat`, which read the file system of a disk. All tests run them on the host, and two
//! tests also run them on the machine. The disk is an image that `mke2fs` has made from a folder: see
//! `image_is_made_from_the_folder`.

use std::env;
use std::fs;
use std::io::Read as _;
use std::iter;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use ruzstd::decoding::StreamingDecoder;
use tempfile::TempDir;

/// The compressed image, in the source tree.
const IMAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/files/image.zst");

/// The files of the image with their contents. The file `large` is in 7 extents, which need a tree of extents.
static FILES: LazyLock<Vec<(String, Vec<u8>)>> = LazyLock::new(|| {
    let mut large: Vec<u8> = (0..1_250_001_u32).flat_map(|word| (word / 256).to_le_bytes()).collect();
    large.truncate(5_000_001);
    let few = [
        ("hello.txt", b"hello, file system\n".to_vec()),
        ("empty", Vec::new()),
        ("large", large),
        ("nested/deeper/deepest/note", (0..4096_u32).map(|byte| byte as u8).collect()),
        ("näme with spaces", b"no newline at the end".to_vec()),
    ];
    let many = (0..60).map(|number| (format!("many/{number:02}"), format!("file {number}\n").into_bytes()));
    few.map(|(name, content)| (name.to_owned(), content)).into_iter().chain(many).collect()
});

/// The symbolic links of the image and their targets: a file, a directory, a path that does not exist, and the link
/// itself.
const LINKS: [(&str, &str); 4] =
    [("link", "nested/deeper/deepest/note"), ("folder", "nested/deeper"), ("dangling", "nowhere"), ("loop", "loop")];
/// A directory of the image that is empty.
const EMPTY_FOLDER: &str = "nothing";

/// The output of `ls -l /`. `mke2fs` adds the directory `lost+found`.
const ROOT: &str = "\
lrwxrwxrwx     0     0            7 dangling -> nowhere
-rw-r--r--     0     0            0 empty
lrwxrwxrwx     0     0           13 folder -> nested/deeper
-rw-r--r--     0     0           19 hello.txt
-rw-r--r--     0     0      5000001 large
lrwxrwxrwx     0     0           26 link -> nested/deeper/deepest/note
lrwxrwxrwx     0     0            4 loop -> loop
drwx------     0     0        12288 lost+found
drwxr-xr-x     0     0         1024 many
drwxr-xr-x     0     0         1024 nested
drwxr-xr-x     0     0         1024 nothing
-rw-r--r--     0     0           21 näme with spaces
";

/// Returns the content of the image.
fn image() -> Vec<u8> {
    let compressed = fs::File::open(IMAGE).expect("the image is in the source tree");
    let mut image = Vec::new();
    StreamingDecoder::new(compressed).expect("a compressed file").read_to_end(&mut image).expect("a whole file");
    image
}

/// A file of the host that is a disk, in a temporary folder.
struct Disk {
    folder: TempDir,
}

impl Disk {
    fn new(content: &[u8]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("disk"), content).expect("room for a file");
        Self { folder }
    }

    /// Runs a program on the machine, with this disk.
    fn on_machine(&self, program: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_boot-for-tests"));
        command.args(["--release", "--timeout=60", "--smp=2", "--disk=disk"]).args(program);
        self.run(command)
    }

    /// Runs a program on threads of the host, with this disk.
    fn on_host(&self, program: &[&str]) -> Output {
        let mut command = Command::new(HOST_PROGRAMS.join(program[0]));
        command.args(&program[1..]).env("GMP_DISKS", "disk");
        self.run(command)
    }

    fn run(&self, mut command: Command) -> Output {
        command.current_dir(self.folder.path()).output().expect("the program starts")
    }
}

/// The folder of the programs for the host. Its first use builds the programs.
static HOST_PROGRAMS: LazyLock<PathBuf> = LazyLock::new(|| {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--manifest-path", manifest, "--package=programs", "--bins"]);
    assert!(build.status().expect("cargo runs").success());
    // The executable of this test is in the folder `deps`, which is in the folder of the programs.
    let test = env::current_exe().expect("the path of this test");
    test.ancestors().nth(2).expect("two folders").to_path_buf()
});

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Checks the output, the messages and the exit status of a program.
fn assert_printed(output: &Output, stdout_wanted: &str, stderr_wanted: &str) {
    assert_eq!((stdout(output).as_str(), stderr(output).as_str()), (stdout_wanted, stderr_wanted));
    assert_eq!(output.status.code(), Some(i32::from(!stderr_wanted.is_empty())));
}

#[test]
fn contents_are_those_of_the_folder_on_machine_and_host() {
    let disk = Disk::new(&image());
    let paths: Vec<String> = FILES.iter().map(|(path, _)| format!("/{path}")).collect();
    let wanted: Vec<u8> = FILES.iter().flat_map(|(_, content)| content.clone()).collect();
    let program: Vec<&str> = iter::once("cat").chain(paths.iter().map(String::as_str)).collect();
    for output in [disk.on_machine(&program), disk.on_host(&program)] {
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let difference = output.stdout.iter().zip(&wanted).position(|(one, other)| one != other);
        assert_eq!((difference, output.stdout.len()), (None, wanted.len()));
    }
}

#[test]
fn directories_are_listed_in_order_on_machine_and_host() {
    let disk = Disk::new(&image());
    // The machine's standard error is not compared, because it also contains the progress of a build.
    let machine = disk.on_machine(&["ls", "-l"]);
    assert_eq!((stdout(&machine).as_str(), machine.status.code()), (ROOT, Some(0)), "{}", stderr(&machine));
    assert_printed(&disk.on_host(&["ls", "-l", "/"]), ROOT, "");
    let many: String = (0..60).map(|number| format!("{number:02}\n")).collect();
    assert_printed(&disk.on_host(&["ls", "/many"]), &many, "");
    let several = "/link\n\n/nothing:\n\n/nested/deeper:\ndeepest\n";
    assert_printed(&disk.on_host(&["ls", "/link", "/nothing", "/nested/deeper"]), several, "");
}

#[test]
fn links_on_the_command_line_are_listed_like_ls_lists_them() {
    let disk = Disk::new(&image());
    // A link to a directory is followed, except with `-l`. For any other link, the link itself is listed.
    let links = ["ls", "/link", "/dangling", "/loop", "/folder"];
    assert_printed(&disk.on_host(&links), "/link\n/dangling\n/loop\n\n/folder:\ndeepest\n", "");
    let line = |length: u64, name: &str| format!("lrwxrwxrwx     0     0 {length:>12} {name}\n");
    let long = line(7, "/dangling -> nowhere") + &line(4, "/loop -> loop") + &line(13, "/folder -> nested/deeper");
    assert_printed(&disk.on_host(&["ls", "-l", "/dangling", "/loop", "/folder"]), &long, "");
    let beyond = ["ls", "/dangling/below", "/missing"];
    let said = "ls: /dangling/below: file not found\nls: /missing: file not found\n";
    assert_printed(&disk.on_host(&beyond), "", said);
    let cat = disk.on_host(&["cat", "/dangling", "/loop"]);
    assert_printed(&cat, "", "cat: /dangling: file not found\ncat: /loop: too many levels of symbolic links\n");
}

#[test]
fn wrong_paths_are_named_and_the_others_are_printed() {
    let disk = Disk::new(&image());
    let cat = ["cat", "/missing", "/hello.txt", "/nested", "/hello.txt/below", "relative", "/link"];
    let said = "cat: /missing: file not found\ncat: /nested: path is a directory\n\
                cat: /hello.txt/below: path is not a directory\ncat: relative: path is not absolute\n";
    let note: String = String::from_utf8_lossy(&FILES[3].1).into_owned();
    assert_printed(&disk.on_host(&cat), &format!("hello, file system\n{note}"), said);
    let ls = ["ls", "/missing", "/hello.txt", "relative"];
    assert_printed(
        &disk.on_host(&ls),
        "/hello.txt\n",
        "ls: /missing: file not found\nls: relative: path is not absolute\n",
    );
}

#[test]
fn missing_disk_and_wrong_arguments_show_the_usage() {
    let disk = Disk::new(&image());
    for (program, usage) in [("cat", "cat PATH..."), ("ls", "ls [-l] [PATH]...")] {
        let usage = format!("usage: cargo run -- --disk IMAGE {usage}\n");
        let mut without = Command::new(HOST_PROGRAMS.join(program));
        without.arg("/hello.txt");
        assert_printed(&disk.run(without), "", &usage);
        let wrong: &[&str] = if program == "ls" { &["ls", "-x"] } else { &["cat"] };
        assert_printed(&disk.on_host(wrong), "", &usage);
    }
}

#[test]
fn disk_without_a_file_system_is_refused() {
    for content in [&[][..], &[0; 100], &[0xff; 100_000]] {
        let disk = Disk::new(content);
        for program in [["cat", "/hello.txt"], ["ls", "/"]] {
            let said = format!("{}: disk: not a file system of type ext2, ext3 or ext4\n", program[0]);
            assert_printed(&disk.on_host(&program), "", &said);
        }
    }
}

#[test]
fn truncated_image_is_readable_up_to_its_end() {
    let disk = Disk::new(&image()[..6 << 20]);
    let output = disk.on_host(&["cat", "/hello.txt", "/large"]);
    assert_eq!(stderr(&output), "cat: /large: io error: past the end of the disk\n");
    assert_eq!(output.status.code(), Some(1));
    let large = output.stdout.strip_prefix(b"hello, file system\n").expect("the first file is whole");
    assert!(large.len() > 1 << 20 && FILES[2].1.starts_with(large), "{} bytes", large.len());
}

/// Each round damages one block. In this order, the blocks contain the superblock, the group descriptors, the inode of
/// the root directory, the inode of the file, and the root directory. All of these have checksums.
#[test]
fn damaged_block_of_the_file_system_is_an_error() {
    let (image, block) = (image(), 1024);
    for number in [1, 2, 261, 264, 269] {
        let mut content = image.clone();
        // The magic number of the superblock remains.
        content[number * block + 64..(number + 1) * block].fill(0xa5);
        let output = Disk::new(&content).on_host(&["cat", "/hello.txt"]);
        let said = stderr(&output);
        assert!(said.starts_with("cat: ") && said.contains(" filesystem: "), "block {number}: {said}");
        assert_eq!((stdout(&output).as_str(), output.status.code()), ("", Some(1)), "block {number}: {said}");
    }
}

/// Makes the image again. Needs `mke2fs` of e2fsprogs, and `zstd`.
#[test]
#[ignore = "rewrites the image in the source tree"]
fn image_is_made_from_the_folder() {
    let disk = Disk::new(&[]);
    let folder = disk.folder.path().join("folder");
    for (path, content) in FILES.iter() {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).expect("a folder");
        fs::write(path, content).expect("a file");
    }
    for (name, target) in LINKS {
        std::os::unix::fs::symlink(target, folder.join(name)).expect("a link");
    }
    fs::create_dir(folder.join(EMPTY_FOLDER)).expect("a folder");
    let image: PathBuf = disk.folder.path().join("image");
    // The groups of blocks are small, so that a large file consists of many extents.
    let options =
        ["-q", "-t", "ext4", "-b", "1024", "-g", "1024", "-O", "^flex_bg", "-N", "200", "-E", "root_owner=0:0"];
    for mut command in [
        {
            let mut chmod = Command::new("chmod");
            chmod.arg("-R").arg("u=rwX,go=rX").arg(&folder);
            chmod
        },
        {
            let mut make = Command::new("mke2fs");
            make.args(options).arg("-d").arg(&folder).arg(&image).arg("7M");
            make
        },
        {
            let mut zstd = Command::new("zstd");
            zstd.args(["-19", "-q", "-f"]).arg(&image).args(["-o", IMAGE]);
            zstd
        },
    ] {
        assert!(command.status().expect("the command is installed").success(), "{command:?}");
    }
}
