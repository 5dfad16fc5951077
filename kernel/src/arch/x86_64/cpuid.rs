//! What the processor reports about itself.

use raw_cpuid::{CpuId, FeatureInfo};

/// The features of the processor (CPUID leaf 1).
pub(super) fn features() -> FeatureInfo {
    CpuId::new().get_feature_info().expect("every x86_64 processor has CPUID leaf 1")
}
