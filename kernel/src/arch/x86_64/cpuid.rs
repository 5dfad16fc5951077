//! What the processor reports about itself by the instruction CPUID.

use raw_cpuid::{CpuId, FeatureInfo, Hypervisor};

/// Returns the features of the processor (CPUID leaf 1).
pub(super) fn features() -> FeatureInfo {
    CpuId::new().get_feature_info().expect("every x86_64 processor has CPUID leaf 1")
}

/// Whether QEMU emulates the processor, without help from the processor of its host (TCG).
pub(crate) fn is_emulated() -> bool {
    CpuId::new().get_hypervisor_info().is_some_and(|info| info.identify() == Hypervisor::QEMU)
}
