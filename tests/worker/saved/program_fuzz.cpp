// libFuzzer target: whatever stands behind a right seal, it is refused in one sentence, or it is a
// program that keeps all rules and reads back as itself. Built where the compiler is clang;
// scripts/fuzz-programs runs it, from the files that are kept.

#include "../../support/fuzz_target.h"

#include <lockstep/coordinator/store/seal.h>
#include <lockstep/worker/files/saved/difference.h>
#include <lockstep/worker/files/saved/program_text.h>
#include <lockstep/worker/files/saved/saved_bytes.h>
#include <lockstep/worker/files/saved/start_entries.h>

using namespace lockstep;
using namespace lockstep::worker;
using lockstep::fuzz::require;

namespace {

void require_sentence(const Status& error) {
  require(error.code == Code::BadInput, "another code");
  require(!error.message.empty() && error.message.size() < 4096, "no sentence");
}

void read(std::span<const std::byte> bytes) {
  const auto program = decode_program(bytes, {.known = {}, .stand_ins = true});
  if (!program) return require_sentence(program.error());
  require(!first_error(*program), "a program with a flaw");
  const auto again = encode(*program);
  require(again.has_value(), "a program that cannot be written");
  const auto same = decode_program(*again, {.known = {}, .stand_ins = true});
  require(same.has_value(), "a program that cannot be read again");
  require(same->joint_fingerprint() == program->joint_fingerprint(), "another program");
  require(differences(*program, *same).empty(), "a difference to itself");
  require(!program_text(*program).empty() && !program_json(*program).empty() &&
              !program_dot(*program).empty(),
          "nothing to show");
  CodeCache cache(program->frame);
  start_from(cache, start_entries(*program));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  read(bytes);
  // What is mutated is what stands behind the seal of a kept file.
  const auto payload = bytes.subspan(std::min(size, coordinator::kSealBytes));
  read(coordinator::seal({"program", kProgramVersion}, payload));
  if (const auto entries = decode_starts(coordinator::seal({"entries", 1}, payload)); !entries)
    require_sentence(entries.error());
  return 0;
}
