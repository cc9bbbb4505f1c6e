#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <lockstep/worker/agree/agreement/call_driver.h>
#include <lockstep/worker/agree/agreement/rank_table.h>
#include <lockstep/worker/compile/toolchain/toolchain_key.h>

namespace lockstep::worker {
namespace {

using collectives::Vote;

constexpr std::array<std::string_view, 9> kLasting{"vendor_id",       "cpu family",  "model",
                                                   "flags",           "isa",         "Features",
                                                   "CPU implementer", "CPU variant", "CPU part"};

/// One rank's message to the others.
struct Said {
  shapes::Fingerprint processor;
  bool knows_processor = false;
  bool needs_toolchain = false;
  std::optional<shapes::Fingerprint> toolchain;
  std::string why;  // why it has no toolchain
};

void put(ByteWriter& out, const shapes::Fingerprint& fingerprint) {
  out.u64(fingerprint.high);
  out.u64(fingerprint.low);
}

shapes::Fingerprint take(ByteReader& in) {
  shapes::Fingerprint fingerprint;
  fingerprint.high = in.u64();
  fingerprint.low = in.u64();
  return fingerprint;
}

std::string text_of(const Said& said) {
  ByteWriter out;
  put(out, said.processor);
  out.u8(said.knows_processor ? 1 : 0);
  out.u8(said.needs_toolchain ? 1 : 0);
  out.u8(said.toolchain ? 1 : 0);
  put(out, said.toolchain.value_or(shapes::Fingerprint{}));
  out.text(said.why);
  const auto bytes = out.view();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Said read(const std::string& text) {
  ByteReader in(std::as_bytes(std::span(text)));
  Said said;
  said.processor = take(in);
  said.knows_processor = in.u8() == 1;
  said.needs_toolchain = in.u8() == 1;
  const bool has = in.u8() == 1;
  const shapes::Fingerprint toolchain = take(in);
  if (has) said.toolchain = toolchain;
  said.why = in.text();
  return said;
}

/// Returns the toolchain key for the rank that sent `said`: the rank's own key, else the key of the
/// lowest rank with the same processor.
std::optional<shapes::Fingerprint> key_for(const Said& said, const std::vector<Said>& all) {
  if (said.toolchain) return said.toolchain;
  for (const Said& other : all)
    if (said.knows_processor && other.toolchain && other.knows_processor &&
        other.processor == said.processor)
      return other.toolchain;
  return std::nullopt;
}

bool none_has_compiler(const std::vector<Said>& all) {
  return std::ranges::none_of(all,
                              [](const Said& one) { return one.toolchain || one.needs_toolchain; });
}

/// Returns the error of the ranks for which there is no key, if any.
std::optional<Status> unserved_error(const std::vector<RankValue>& values,
                                     const std::vector<Said>& all) {
  std::optional<Status> error;
  std::vector<RankValue> table;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool served = key_for(all[i], all).has_value();
    table.push_back({values[i].ranks, served ? "can, or takes what a peer builds" : all[i].why});
    if (served || error) continue;
    error = environment_error(
        fmt::format("{} cannot build kernels, and no rank with the same kind of processor can: {}",
                    values[i].ranks.phrase(), all[i].why));
  }
  if (error) error->groups = std::move(table);
  return error;
}

}  // namespace

std::string processor_kind(std::string_view cpuinfo) {
  std::set<std::string> lines;
  while (!cpuinfo.empty()) {
    const std::string_view line = cpuinfo.substr(0, cpuinfo.find('\n'));
    cpuinfo.remove_prefix(std::min(cpuinfo.size(), line.size() + 1));
    const std::size_t end = line.find_last_not_of(" \t", line.find(':') - 1);
    const std::string_view name = line.substr(0, end + 1);
    for (const std::string_view lasting : kLasting)
      if (name == lasting) lines.emplace(line);
  }
  std::string out;
  for (const std::string& line : lines) out += line + "\n";
  return out;
}

std::string processor_kind() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  return processor_kind(std::string{std::istreambuf_iterator<char>(cpuinfo), {}});
}

Result<std::optional<shapes::Fingerprint>> agree_toolchain(CallDriver& driver, const RoundKey& key,
                                                           const Result<shapes::Fingerprint>& mine,
                                                           std::string_view processor,
                                                           bool needed) {
  const auto vote = driver.vote_words(key, Vote::of(mine ? Vote::kOnes : 0, key.hash(), 0, 0));
  if (!vote) return vote.error();
  if (mine && vote->entries() == Vote::kOnes) return std::optional(*mine);
  const Said said{shapes::fingerprint(processor), !processor.empty(), needed,
                  mine ? std::optional(*mine) : std::nullopt,
                  mine ? std::string() : mine.error().message};
  const auto rank_table =
      driver.tree_join(rank_table_payload(driver.group().rank(), text_of(said)), join_rank_tables);
  if (!rank_table) return rank_table.error();
  const std::vector<RankValue> values = rank_table_values(*rank_table);
  std::vector<Said> all;
  for (const RankValue& value : values) all.push_back(read(value.value));
  if (none_has_compiler(all)) return std::optional<shapes::Fingerprint>{};
  if (auto alone = unserved_error(values, all)) return *std::move(alone);
  if (const auto found = key_for(said, all)) return found;
  return internal_error("the ranks' toolchains cannot be read");
}

}  // namespace lockstep::worker
