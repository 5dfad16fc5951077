//! How to turn the computer off by ACPI (ACPI 6.5, 7.4.2.6 and 16.1): "soft-off", sleep state S5.
//!
//! The values to write to the control registers are in the object `\_S5` of the firmware's byte code (AML). In practice
//! this object is a constant package of small numbers, so it can be read without an AML interpreter. If the object has
//! another form, the computer stays on.

/// The sleep types for soft-off: the values for the type fields of the two PM1 control registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SleepTypes {
    /// The value for register PM1a.
    pub a: u8,
    /// The value for register PM1b, if the computer has that register.
    pub b: u8,
}

/// The position of the field with the sleep type in a PM1 control register.
const TYPE_SHIFT: u32 = 10;
/// The bits of the field with the sleep type.
const TYPE: u16 = 0b111 << TYPE_SHIFT;
/// The bit of a PM1 control register that starts the transition to the sleep state.
const ENABLE: u16 = 1 << 13;
/// The bit of control register PM1a that is set while ACPI is enabled.
const ACPI_ENABLED: u16 = 1;

/// The AML byte codes that the parser needs (ACPI 6.5, 20.2).
const NAME: u8 = 0x08;
const ROOT: u8 = b'\\';
const PACKAGE: u8 = 0x12;
const ZERO: u8 = 0x00;
const ONE: u8 = 0x01;
const BYTE: u8 = 0x0a;

/// Finds the sleep types for soft-off in `byte_code`, which is the content of a DSDT or SSDT after its header. Returns
/// `None` if `byte_code` does not define `_S5_` as a constant package of small numbers.
///
/// ```
/// use kernel_formats::soft_off::{SleepTypes, find};
///
/// // Name (_S5_, Package () { 5, 4, 0, 0 })
/// let byte_code = b"\x08_S5_\x12\x08\x04\x0a\x05\x0a\x04\x00\x00";
/// assert_eq!(find(byte_code), Some(SleepTypes { a: 5, b: 4 }));
/// ```
pub fn find(byte_code: &[u8]) -> Option<SleepTypes> {
    (0..byte_code.len()).find_map(|start| object(&byte_code[start..]))
}

/// Parses the definition of the object `_S5_`, if `code` begins with one.
fn object(code: &[u8]) -> Option<SleepTypes> {
    let code = code.strip_prefix(&[NAME])?;
    let code = code.strip_prefix(&[ROOT]).unwrap_or(code);
    let code = code.strip_prefix(b"_S5_")?.strip_prefix(&[PACKAGE])?;
    // Skip the field with the length of the package. The field has 1 to 4 bytes. After it comes the number of elements.
    let (&lead, code) = code.split_first()?;
    let (&count, code) = code.get(usize::from(lead >> 6)..)?.split_first()?;
    let (a, code) = number(code)?;
    let b = if count > 1 { number(code)?.0 } else { 0 };
    (count > 0 && a < 8 && b < 8).then_some(SleepTypes { a, b })
}

/// Parses a constant of one byte at the beginning of `code`. Returns the constant and the rest of `code`.
fn number(code: &[u8]) -> Option<(u8, &[u8])> {
    match code {
        [value @ (ZERO | ONE), rest @ ..] | [BYTE, value, rest @ ..] => Some((*value, rest)),
        _ => None,
    }
}

/// Returns the value that turns the computer off when it is written to a PM1 control register. `content` is the
/// register's present value.
pub fn control(content: u16, sleep_type: u8) -> u16 {
    content & !(TYPE | ENABLE) | u16::from(sleep_type) << TYPE_SHIFT & TYPE | ENABLE
}

/// Whether ACPI is enabled. Only then can the computer be turned off. `content` is the value of control register PM1a.
pub fn is_acpi_on(content: u16) -> bool {
    content & ACPI_ENABLED != 0
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;

    /// The object `_S5_` as in QEMU's firmware, between other objects.
    const QEMU: &[u8] = b"\x14\x08_STA\x00\xa4\x0a\x0f\x08_S4_\x12\x06\x04\x0a\x02\x0a\x02\x00\x00\
                          \x08_S5_\x12\x06\x04\x00\x00\x00\x00\x10\x0f_GPE";

    #[test]
    fn the_package_is_found_among_other_objects() {
        assert_eq!(find(QEMU), Some(SleepTypes { a: 0, b: 0 }));
    }

    #[test]
    fn all_forms_of_the_name_and_of_numbers_are_read() {
        for (code, a, b) in [
            (&b"\x08\\_S5_\x12\x0a\x04\x0a\x07\x0a\x06\x00\x00"[..], 7, 6),
            (b"\x08_S5_\x12\x08\x04\x01\x00\x00\x00", 1, 0),
            // The length of this package takes two bytes.
            (b"\x08_S5_\x12\x48\x00\x02\x0a\x05\x01", 5, 1),
            // This package has only one element.
            (b"\x08_S5_\x12\x04\x01\x0a\x05", 5, 0),
        ] {
            assert_eq!(find(code), Some(SleepTypes { a, b }), "{code:x?}");
        }
    }

    #[test]
    fn what_is_no_constant_package_is_left_alone() {
        for code in [
            // The inputs, in this order: a method, a package that contains a name, a type that is too large, an empty
            // package, a use of the name `_S5_` without a definition, and empty code.
            &b"\x14\x09_S5_\x00\xa4\x12\x03\x01\x00"[..],
            b"\x08_S5_\x12\x08\x04SLPTSLPT",
            b"\x08_S5_\x12\x06\x04\x0a\x08\x00\x00\x00",
            b"\x08_S5_\x12\x02\x00",
            b"_S5_\x12\x06\x04\x00\x00\x00\x00",
            b"",
        ] {
            assert_eq!(find(code), None, "{code:x?}");
        }
    }

    #[test]
    fn code_that_ends_in_the_middle_is_no_panic() {
        let whole = find(QEMU);
        for end in 0..QEMU.len() {
            let found: Vec<_> = find(&QEMU[..end]).into_iter().collect();
            assert!(found.is_empty() || Some(found[0]) == whole);
        }
    }

    #[test]
    fn the_other_bits_of_the_control_register_stay() {
        assert_eq!(control(0x0001, 0), 0x2001);
        assert_eq!(control(0x1c01, 5), 0x3401);
        assert_eq!(control(0xffff, 0), 0xe3ff);
        assert!(is_acpi_on(0x0001) && !is_acpi_on(0xfffe));
    }
}
