#include <utility>

#include <lockstep/coordinator/artifact_store.h>

namespace lockstep::coordinator {

Result<std::unique_ptr<ArtifactStore>> ArtifactStore::open(Options options) {
  constexpr VerifiedDirectory::Content kArtifacts{.format = "lockstp1",
                                                  .noun = "artifact",
                                                  .danger = "what is in it gets executed",
                                                  .recovery = "it is built again",
                                                  .largest = std::size_t{1} << 30};
  auto directory = VerifiedDirectory::open({.path = std::move(options.directory),
                                            .content = kArtifacts,
                                            .report = std::move(options.report)});
  if (!directory) return directory.error();
  return std::unique_ptr<ArtifactStore>(new ArtifactStore(std::move(*directory)));
}

}  // namespace lockstep::coordinator
