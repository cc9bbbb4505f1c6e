#include <chrono>
#include <utility>

#include <lockstep/coordinator/store/artifact_store.h>

namespace lockstep::coordinator {
namespace {

/// The present time in the unit of file times.
ArtifactIndex::Time now() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

Result<std::unique_ptr<ArtifactStore>> ArtifactStore::open(Options options) {
  constexpr VerifiedDirectory::Content kArtifacts{.noun = "artifact",
                                                  .danger = "what is in it gets executed",
                                                  .recovery = "it is built again",
                                                  .largest = std::size_t{1} << 30};
  auto directory = VerifiedDirectory::open(
      {.path = options.directory, .content = kArtifacts, .report = options.report});
  if (!directory) return directory.error();
  return std::unique_ptr<ArtifactStore>(
      new ArtifactStore(std::move(options), std::move(*directory)));
}

ArtifactStore::ArtifactStore(Options options, std::unique_ptr<VerifiedDirectory> directory)
    : options_(std::move(options)),
      directory_(std::move(directory)),
      index_(options_.directory + "/index", *directory_, options_.report) {}

ArtifactStore::~ArtifactStore() { (void)index_.note_uses(); }

Result<std::optional<Bytes>> ArtifactStore::load(const shapes::Fingerprint& key) {
  auto bytes = directory_->load(key);
  if (bytes && *bytes) index_.used(key, now());
  return bytes;
}

Result<void> ArtifactStore::store(const shapes::Fingerprint& key,
                                  std::span<const std::byte> bytes) {
  if (auto stored = directory_->store(key, bytes); !stored) return stored;
  const auto size = VerifiedDirectory::bytes_on_disk(bytes.size());
  if (auto indexed = index_.stored(key, size, options_.limit, now()); !indexed)
    tell(indexed.error());
  return {};
}

void ArtifactStore::note_uses() {
  if (auto noted = index_.note_uses(); !noted) tell(noted.error());
}

void ArtifactStore::tell(const Status& error) {
  if (std::exchange(told_, true) || !options_.report) return;
  options_.report({error.code,
                   error.message + "; the artifacts there are not kept to a size until then",
                   {},
                   {}});
}

}  // namespace lockstep::coordinator
