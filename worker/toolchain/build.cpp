#include <lockstep/worker/toolchain/build.h>

namespace lockstep::worker {

Result<BuiltUnit> build_unit(const Program& program, int unit, Toolchain& toolchain,
                             coordinator::ArtifactStore* store) {
  const shapes::Fingerprint key = program.unit_key(unit, toolchain.fingerprint());
  BuiltUnit built;
  if (store != nullptr) {
    auto kept = store->load(key);
    if (!kept) built.not_stored = kept.error();
    if (kept && kept->has_value()) {
      built.object = **std::move(kept);
      built.reused = true;
      return built;
    }
  }
  auto object = toolchain.build(program.units[static_cast<std::size_t>(unit)]);
  if (!object) return object.error();
  built.object = *std::move(object);
  if (store != nullptr)
    if (auto stored = store->store(key, built.object); !stored) built.not_stored = stored.error();
  return built;
}

}  // namespace lockstep::worker
