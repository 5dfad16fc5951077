//! What the processor reports about itself by the instruction CPUID.

use raw_cpuid::{CpuId, FeatureInfo};

/// Returns the features of the processor (CPUID leaf 1).
pub(super) fn features() -> FeatureInfo {
    CpuId::new().get_feature_info().expect("every x86_64 processor has CPUID leaf 1")
}
