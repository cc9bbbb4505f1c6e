// Saved programs as bytes: each program reads back as it was, and bytes that no program has are
// refused in one sentence.
#include <filesystem>
#include <fstream>

#include "compiled_graph.h"
#include "saved_programs.h"
#include "thread_group.h"
#include <gtest/gtest.h>

#include <lockstep/coordinator/store/seal.h>
#include <lockstep/worker/compile/interpreter/interpreter.h>
#include <lockstep/worker/files/saved/saved_file.h>
#include <lockstep/worker/files/saved/start_entries.h>

namespace lockstep::worker::saved_program_test {
namespace {

using test::OpCase;

void expect_same_graph(const Graph& got, const Graph& want) {
  EXPECT_EQ(got.text(), want.text());
  EXPECT_EQ(got.fingerprint(), want.fingerprint());
  EXPECT_EQ(got.collectives_fingerprint(), want.collectives_fingerprint());
  EXPECT_EQ(got.joint_prefixes(), want.joint_prefixes());
  EXPECT_EQ(got.peers_may_differ, want.peers_may_differ);
  EXPECT_EQ(got.answers, want.answers);
  EXPECT_EQ(got.read_backs, want.read_backs);
  ASSERT_EQ(got.symbols.size(), want.symbols.size());
  for (std::size_t i = 0; i < want.symbols.size(); ++i) {
    EXPECT_EQ(got.symbols[i].symbol, want.symbols[i].symbol);
    EXPECT_EQ(got.symbols[i].source, want.symbols[i].source);
    EXPECT_EQ(got.symbols[i].hint, want.symbols[i].hint);
    EXPECT_EQ(got.symbols[i].value, want.symbols[i].value);
  }
  ASSERT_EQ(got.guards.size(), want.guards.size());
  for (std::size_t i = 0; i < want.guards.size(); ++i) {
    EXPECT_EQ(got.guards[i].predicate, want.guards[i].predicate);
    EXPECT_EQ(got.guards[i].note, want.guards[i].note);
    EXPECT_EQ(got.guards[i].where, want.guards[i].where);
  }
  ASSERT_EQ(got.nodes.size(), want.nodes.size());
  for (std::size_t i = 0; i < want.nodes.size(); ++i) {
    EXPECT_EQ(got.nodes[i].where, want.nodes[i].where) << i;
    EXPECT_EQ(got.nodes[i].meta, want.nodes[i].meta) << i;
    EXPECT_EQ(got.nodes[i].exprs, want.nodes[i].exprs) << i;
    EXPECT_EQ(got.nodes[i].own, nullptr) << i;
  }
}

Bytes bytes_of(const SavedProgram& program) {
  auto bytes = encode(program);
  EXPECT_TRUE(bytes) << bytes.error().text();
  return bytes ? *bytes : Bytes{};
}

std::string refusal(std::span<const std::byte> bytes, const OwnOps& own = {}) {
  const auto read = decode_program(bytes, own);
  if (read) return "";
  EXPECT_EQ(read.error().code, Code::BadInput) << read.error().text();
  EXPECT_EQ(exit_code(read.error().code), 2);
  EXPECT_EQ(read.error().message.find('\n'), std::string::npos) << read.error().message;
  return read.error().message;
}

std::vector<Array> interpreted(const Graph& graph, const OpCase& op_case, std::int64_t n,
                               std::int64_t m) {
  Inputs inputs;
  const std::vector<double> zero{0};
  inputs["job.rank"] = Array::of(DType::I64, {}, zero);
  const std::vector<Array> values = test::case_values(op_case, n, m, 0, 5);
  for (std::size_t i = 0; i < values.size(); ++i) inputs[test::case_input_name(i)] = values[i];
  auto out = run_interpreted(graph, inputs);
  EXPECT_TRUE(out) << out.error().text();
  return out ? *out : std::vector<Array>{};
}

TEST(SavedProgram, EveryOpCase_ReadsBackAsTheSameGraphAndGivesTheSameBits) {
  for (const OpCase& op_case : test::op_cases()) {
    SCOPED_TRACE(op_case.name);
    const SavedProgram program = test::program_of(op_case);
    const Bytes bytes = bytes_of(program);
    const auto read = decode_program(bytes, test::own_ops_in(program));
    ASSERT_TRUE(read) << read.error().text();
    EXPECT_EQ(bytes_of(*read), bytes);
    EXPECT_EQ(read->joint_fingerprint(), program.joint_fingerprint());
    ASSERT_EQ(read->entries.size(), 1U);
    const SavedEntry &got = read->entries[0], &want = program.entries[0];
    EXPECT_EQ(got.decision, want.decision);
    Graph plain = got.graph;
    for (Node& node : plain.nodes) node.own = nullptr;
    EXPECT_EQ(got.graph.text(), want.graph.text());
    EXPECT_EQ(got.graph.fingerprint(), want.graph.fingerprint());
    if (own_ops_of(program).empty()) expect_same_graph(got.graph, want.graph);
    if (op_case.ranks != 1) continue;
    for (const std::int64_t n : {0, 3})
      EXPECT_TRUE(
          same(interpreted(got.graph, op_case, n, 4), interpreted(want.graph, op_case, n, 4), 0));
  }
}

TEST(SavedProgram, ABitOfEverything_ReadsBack) {
  const SavedProgram program = test::small_program();
  const auto read = decode_program(bytes_of(program), test::own_ops_in(program));
  ASSERT_TRUE(read) << read.error().text();
  ASSERT_EQ(read->entries.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    const Graph &got = read->entries[i].graph, &want = program.entries[i].graph;
    EXPECT_EQ(got.text(), want.text());
    EXPECT_EQ(got.fingerprint(), want.fingerprint());
    ASSERT_EQ(got.group_guards.size(), want.group_guards.size());
    for (std::size_t g = 0; g < want.group_guards.size(); ++g) {
      EXPECT_TRUE(got.group_guards[g].same(want.group_guards[g]));
      EXPECT_EQ(got.group_guards[g].where, want.group_guards[g].where);
    }
  }
  EXPECT_FALSE(program.entries[1].graph.guards.empty());
  EXPECT_FALSE(program.entries[1].graph.group_guards.empty());
  EXPECT_FALSE(program.entries[1].graph.host_values().empty());
  EXPECT_EQ(read->constraints, program.constraints);
  EXPECT_EQ(read->ranks, 2);
}

TEST(SavedProgram, NumbersOfEveryKind_KeepTheirBits) {
  SavedProgram program = test::small_program();
  for (const double number : {-0.0, 1.0 / 3, std::numeric_limits<double>::infinity(),
                              std::numeric_limits<double>::denorm_min()}) {
    SavedProgram one = program;
    for (Node& node : one.entries[0].graph.nodes)
      if (node.op == Op::Full) node.number = number;
    const auto read = decode_program(bytes_of(one), test::own_ops_in(one));
    ASSERT_TRUE(read) << read.error().text();
    for (const Node& node : read->entries[0].graph.nodes)
      if (node.op == Op::Full) {
        EXPECT_EQ(std::bit_cast<std::uint64_t>(node.number), std::bit_cast<std::uint64_t>(number));
      }
  }
}

TEST(SavedProgram, AnyDamagedByte_IsRefused) {
  const Bytes good = bytes_of(test::small_program());
  for (std::size_t at = 0; at < good.size(); ++at)
    for (const auto change : {std::byte{1}, std::byte{0x80}, std::byte{0xff}}) {
      Bytes bad = good;
      bad[at] ^= change;
      ASSERT_NE(refusal(bad), "") << "byte " << at;
    }
}

TEST(SavedProgram, CutAtAnyLengthOrContinued_IsRefused) {
  Bytes good = bytes_of(test::small_program());
  for (std::size_t length = 0; length < good.size(); ++length)
    ASSERT_NE(refusal(std::span(good).first(length)), "") << "length " << length;
  good.push_back(std::byte{0});
  EXPECT_NE(refusal(good), "");
}

/// What somebody wrote who can seal: every byte of it is any, and what is not refused is a program.
TEST(SavedProgram, DamagedBytesBehindARightSeal_AreRefusedOrAProgram) {
  const SavedProgram program = test::small_program();
  const Bytes good = bytes_of(program);
  const OwnOps own = test::own_ops_in(program);
  const auto payload = std::span(good).subspan(coordinator::kSealBytes);
  std::size_t refused = 0, read = 0;
  for (std::size_t at = 0; at < payload.size(); at += 3)  // the fuzzer has them all
    for (const auto change : {std::byte{1}, std::byte{0x40}}) {
      Bytes bad(payload.begin(), payload.end());
      bad[at] ^= change;
      const Bytes sealed = coordinator::seal({"program", kProgramVersion}, bad);
      auto made = decode_program(sealed, own);
      (made ? read : refused) += 1;
      if (!made) {
        ASSERT_NE(refusal(sealed, own), "");
        continue;
      }
      ASSERT_EQ(first_error(*made), std::nullopt) << "byte " << at;
      ASSERT_TRUE(encode(*made)) << "byte " << at;
      (void)start_entries(*made);
    }
  EXPECT_GT(refused, 9 * read);
  EXPECT_GT(read, 0U);  // of lines, hints and words that nothing hangs on
}

TEST(SavedProgram, OfAnotherVersionOrKind_IsRefusedByName) {
  const Bytes good = bytes_of(test::small_program());
  const auto payload = std::span(good).subspan(coordinator::kSealBytes);
  EXPECT_NE(refusal(coordinator::seal({"program", kProgramVersion + 1}, payload))
                .find("it is of version 2, this program reads 1"),
            std::string::npos);
  EXPECT_NE(refusal(coordinator::seal({"profile", kProgramVersion}, payload)).find("program"),
            std::string::npos);
}

TEST(SavedProgram, AnOwnOpThatIsNotRegistered_IsNamed) {
  const Bytes bytes = bytes_of(test::small_program());
  EXPECT_NE(refusal(bytes).find("uses the op test.swish, which this process has not registered"),
            std::string::npos);
  OwnOps other{.known = {test::swish_definition()}};
  other.known[0].version = "2";
  EXPECT_NE(refusal(bytes, other).find("uses the op test.swish of another definition"),
            std::string::npos);
  other.known[0] = test::swish_definition();
  EXPECT_EQ(refusal(bytes, other), "");
}

TEST(SavedProgram, ShownWithoutItsOwnOps_HasTheSameTextAndFingerprint) {
  const SavedProgram program = test::small_program();
  const auto shown = decode_program(bytes_of(program), {.known = {}, .stand_ins = true});
  ASSERT_TRUE(shown) << shown.error().text();
  EXPECT_EQ(shown->entries[1].graph.text(), program.entries[1].graph.text());
  EXPECT_EQ(shown->joint_fingerprint(), program.joint_fingerprint());
}

TEST(SavedProgram, AGraphThatBreaksItsRules_IsNotWritten) {
  SavedProgram program = test::small_program();
  std::swap(program.entries[0].graph.nodes[0].text, program.entries[0].graph.nodes[1].text);
  const auto bytes = encode(program);
  ASSERT_FALSE(bytes);
  EXPECT_EQ(bytes.error().code, Code::BadInput);
}

TEST(SavedProgram, WithAFlaw_IsRefusedByWhatItIs) {
  const shapes::Expr unknown = shapes::Expr::symbol({false, 9});
  const auto first = [](SavedProgram& program, Op op) -> Node& {
    for (Node& node : program.entries[1].graph.nodes)
      if (node.op == op) return node;
    throw std::runtime_error("there is no such node");
  };
  const std::vector<std::pair<std::string, std::function<void(SavedProgram&)>>> flaws = {
      {"the frame has no name", [](auto& p) { p.frame.clear(); }},
      {"there is no entry", [](auto& p) { p.entries.clear(); }},
      {"a graph is that of step", [](auto& p) { p.frame = "other"; }},
      {"at most 64", [](auto& p) { p.entries.resize(65, p.entries[0]); }},
      {"not one of 3 ranks", [](auto& p) { p.ranks = 3; }},
      {"do not say the same of other ranks",
       [](auto& p) { p.consistency = Consistency::SameCollectives; }},
      {"its ranks decide alone", [](auto& p) { p.consistency = Consistency::Local; }},
      {"is needed alike",
       [&](auto& p) {
         p.entries[1].graph.uniform.push_back({2 * unknown + 1, "", "all_reduce", {}});
       }},
      {"which no input gives",
       [&](auto& p) {
         p.entries[1].graph.guards.push_back({shapes::less(unknown, 7), {}});
       }},
      {"has no value yet", [&](auto& p) { first(p, Op::Expand).meta.sizes[0] = unknown; }},
      {"comes later", [&](auto& p) { first(p, Op::Expand).inputs[0] = 1 << 20; }},
      {"the wrong number of attributes", [&](auto& p) { first(p, Op::AllReduce).ints.clear(); }},
      {"there is no reduction", [&](auto& p) { first(p, Op::AllReduce).ints[0] = 17; }},
      {"how many ranks group tensor has",
       [&](auto& p) { first(p, Op::AllReduce).text = "tensor"; }},
      {"is not that of its decision", [](auto& p) { p.entries[1].graph.symbols[0].source = "y"; }},
      {"the decision has no input",
       [](auto& p) { p.entries[1].decision.sources[3].spec.name = "z"; }},
      {"is not what the decision says",
       [](auto& p) { p.entries[1].decision.sources[3].spec.dtype = DType::F32; }},
      {"is made of what is no number of an input",
       [](auto& p) { p.entries[1].graph.symbols.back().value.steps[0].source = "x"; }},
      {"what objects are packed for", [](auto& p) { p.entries[1].objects.emplace_back(); }},
  };
  for (const auto& [said, make] : flaws) {
    SavedProgram program = test::small_program();
    make(program);
    const auto flaw = first_error(program);
    EXPECT_NE(flaw.value_or("").find(said), std::string::npos)
        << said << ": " << flaw.value_or("nothing");
    EXPECT_FALSE(encode(program)) << said;
  }
}

TEST(SavedProgram, WhatRanksCompare_SeesWhatTheConsistencyCompares) {
  const SavedProgram program = test::small_program();
  SavedProgram other = program;
  other.entries[0].graph.nodes[0].where.line += 1;
  other.entries[1].decision.symbols[0].hint += 1;
  EXPECT_EQ(other.joint_fingerprint(), program.joint_fingerprint());
  std::swap(other.entries[0], other.entries[1]);
  EXPECT_NE(other.joint_fingerprint(), program.joint_fingerprint());
  other = program;
  other.entries[1].decision.symbols[0].min = 7;
  EXPECT_NE(other.joint_fingerprint(), program.joint_fingerprint());
  other = program;
  other.constraints.clear();
  EXPECT_NE(other.joint_fingerprint(), program.joint_fingerprint());
}

TEST(SavedProgram, EntriesForARecord_ReadBackAndAnyDamageIsRefusedOrSound) {
  const std::vector<Entry> entries = start_entries(test::small_program());
  const Bytes good = encode_starts(entries);
  const auto read = decode_starts(good);
  ASSERT_TRUE(read) << read.error().text();
  CodeCache one("step"), other("step");
  start_from(one, entries);
  start_from(other, *read);
  EXPECT_EQ(one.digest(), other.digest());
  EXPECT_EQ(encode_starts(*read), good);
  const auto payload = std::span(good).subspan(coordinator::kSealBytes);
  for (std::size_t at = 0; at < payload.size(); ++at)
    for (const auto change : {std::byte{1}, std::byte{0x40}, std::byte{0xff}}) {
      Bytes bad(payload.begin(), payload.end());
      bad[at] ^= change;
      const auto made = decode_starts(coordinator::seal({"entries", 1}, bad));
      ASSERT_TRUE(made || made.error().code == Code::BadInput);
    }
}

class SavedFile : public testing::Test {
 protected:
  SavedFile() {
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
  }
  ~SavedFile() override { std::filesystem::remove_all(folder); }
  std::string folder = testing::TempDir() + "saved_file_test";
  std::string path = folder + "/small.lsp";
};

TEST_F(SavedFile, WrittenOverAnother_IsThereAsAWholeWithNothingBesideIt) {
  const SavedProgram program = test::small_program();
  for (int i = 0; i < 2; ++i) {
    const auto written = write_program(path, program);
    ASSERT_TRUE(written) << written.error().text();
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
  const auto read = read_program(path, test::own_ops_in(program));
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(bytes_of(*read), bytes_of(program));
}

TEST_F(SavedFile, ThatIsNotThereOrNoFile_IsOneSentenceWithItsName) {
  for (const std::string& name : {path, folder, std::string("/dev/null")}) {
    const auto read = read_program(name);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, Code::BadInput);
    EXPECT_TRUE(read.error().message.starts_with(name)) << read.error().message;
  }
}

TEST_F(SavedFile, IntoAFolderThatIsNotThere_IsEnvironmentWithTheFile) {
  const auto written = write_program(folder + "/none/small.lsp", test::small_program());
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, Code::Environment);
  EXPECT_NE(written.error().message.find(folder + "/none/small.lsp"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::worker::saved_program_test
