#include "workshop.h"

#include <algorithm>
#include <cstring>
#include <span>

#include <fmt/format.h>

#include <lockstep/worker/compile/toolchain/toolchain_key.h>

namespace lockstep::fuzz {
namespace {

using K = Fault::Kind;

Status no_compiler(Rank rank) {
  return {Code::Environment, fmt::format("no compiler on {}", rank.value), {}, {}};
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

/// Programs share units, within a frame and between frames.
worker::Program program_of(const std::string& frame, const shapes::Fingerprint& graph) {
  worker::Program program;
  program.units = {"norm", "attention of " + frame, "loss of " + graph.text(),
                   "update of " + graph.text()};
  program.units.resize(1 + graph.low % program.units.size());
  return program;
}

std::string object_of(const std::string& identity, std::string_view text) {
  return fmt::format("object of {} by {}", text, identity);
}

}  // namespace

std::string compiler_identity(int compiler) { return fmt::format("cc {}", compiler); }

class Workshop::Compiler final : public worker::Toolchain {
 public:
  explicit Compiler(std::string identity) : identity_(std::move(identity)) {}
  [[nodiscard]] const std::string& identity() const override { return identity_; }
  [[nodiscard]] worker::BuildCost cost() const override { return cost_; }
  [[nodiscard]] Result<Bytes> build(std::string_view text) override {
    ++cost_.compiles;
    if (dies) return Status{Code::Environment, "ended by signal 9", {}, {}};
    if (rejects) return Status{Code::CompileError, "<stdin>:1:1: error", {}, {}};
    if (built != nullptr) ++(*built)[object_of(identity_, text)];
    const std::string object = object_of(identity_, text);
    const auto bytes = bytes_of(object);
    return Bytes(bytes.begin(), bytes.end());
  }
  bool dies = false, rejects = false;
  std::map<std::string, int>* built = nullptr;

 private:
  std::string identity_;
  worker::BuildCost cost_;
};

Workshop::Workshop(const Program& program, Rank rank, Scratch& scratch, Run& run)
    : program_(program), rank_(rank), run_(run) {
  if (host().compiler == 0) {
    tools_.no_toolchain = no_compiler(rank);
  } else {
    compiler_ = std::make_unique<Compiler>(compiler_identity(host().compiler));
    tools_.toolchain = compiler_.get();
    tools_.toolchain_key = compiler_->fingerprint();
  }
  if (!host().store) return;
  auto opened = coordinator::ArtifactStore::open(
      {scratch.path(fmt::format("artifacts of {}", rank.value)), [](const Status&) {}});
  if (!opened) return;  // As on a host with a full disk.
  store_ = std::move(*opened);
  tools_.store = store_.get();
}
Workshop::~Workshop() = default;

Result<void> Workshop::agree(worker::Agreement& all) {
  worker::RoundKey key = all.key();
  key.kind = worker::RoundKey::Kind::Start;
  const Result<shapes::Fingerprint> mine =
      compiler_ ? Result<shapes::Fingerprint>(tools_.toolchain_key) : no_compiler(rank_);
  const auto agreed = worker::agree_toolchain(all.driver(), key, mine,
                                              fmt::format("processor {}", host().processor));
  if (!agreed) return agreed.error();
  tools_.toolchain_key = **agreed;  // all need one
  return {};
}

bool Workshop::left_alone() const {
  return host().compiler == 0 &&
         std::none_of(program_.hosts.begin(), program_.hosts.end(), [&](const Host& peer) {
           return peer.compiler != 0 && peer.processor == host().processor;
         });
}

bool Workshop::served(const GroupPlan& group, std::size_t step) const {
  for (const RankSet::Run& run : group.members.runs())
    for (int r = run.first; r <= run.last; ++r) {
      if (r != rank_.value && group.config.consistency != worker::Consistency::SameGraph) continue;
      const int compiler = host(Rank{r}).compiler;
      const bool dies = program_.strikes(K::BuilderDies, Rank{r}, step);
      if (compiler != 0 && !dies &&
          shapes::fingerprint(compiler_identity(compiler)) == tools_.toolchain_key)
        return true;
    }
  return false;
}

void Workshop::plant(const worker::Program& program) {
  for (int u = 0; store_ != nullptr && u < program.unit_count(); ++u)
    (void)store_->store(program.unit_key(u, tools_.toolchain_key),
                        bytes_of("another host's " + program.units[static_cast<std::size_t>(u)]));
}

Workpiece Workshop::build(const GroupPlan& group, std::size_t step, worker::Agreement& agreement,
                          const std::string& frame, const shapes::Fingerprint& graph,
                          const std::optional<Status>& rejected) {
  const worker::Program program = program_of(frame, graph);
  if (compiler_) {
    compiler_->dies = program_.strikes(K::BuilderDies, rank_, step);
    compiler_->rejects = program_.strikes(K::Rejects, rank_, step);
    compiler_->built = &run_.built[{static_cast<std::size_t>(&group - program_.groups.data()),
                                    agreement.key().epoch, agreement.key().round}];
  }
  if (program_.strikes(K::OtherObject, rank_, step)) plant(program);
  tools_.members = group.members;
  Workpiece piece;
  const Result<worker::Program> given =
      rejected ? Result<worker::Program>(*rejected) : Result<worker::Program>(program);
  const worker::SharedUnits made =
      worker::build_together(agreement.driver(), agreement.key(), given, tools_);
  piece.failure = made.failure;
  run_.received += static_cast<std::uint64_t>(made.received);
  judge(piece, program, made);
  if (!made.failure || rejected) return piece;
  const Code code = made.failure->code;
  const bool corrupted = std::any_of(
      program_.faults.begin(), program_.faults.end(),
      [&](const Fault& fault) { return fault.kind == K::CorruptUnit && fault.step == step; });
  if ((code == Code::CompileError && compiler_ && compiler_->rejects) ||
      (code == Code::Environment && (corrupted || !served(group, step))))
    piece.happened = code;
  return piece;
}

/// Nothing is loaded but what a compiler of this rank's kind makes of the text, or what another
/// host had under its key.
void Workshop::judge(Workpiece& piece, const worker::Program& program,
                     const worker::SharedUnits& made) {
  if (!made.objects) return;
  shapes::FingerprintBuilder all;
  for (std::size_t u = 0; u < made.objects->size(); ++u) {
    const Bytes& object = (*made.objects)[u];
    const std::string text(reinterpret_cast<const char*>(object.data()), object.size());
    bool right = text == "another host's " + program.units[u] && program_.strikes(K::OtherObject);
    for (int compiler = 1; compiler <= kCompilers; ++compiler)
      right = right || (shapes::fingerprint(compiler_identity(compiler)) == tools_.toolchain_key &&
                        text == object_of(compiler_identity(compiler), program.units[u]));
    if (!right) ++run_.wrong_objects;
    all.add(text);
  }
  piece.objects = all.finish();
  piece.toolchain_key = tools_.toolchain_key;
}

}  // namespace lockstep::fuzz
