// What `lockstep show` says of programs: text, JSON, pictures and differences.
#include "saved_programs.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <lockstep/worker/files/saved/difference.h>
#include <lockstep/worker/files/saved/program_text.h>

namespace lockstep::worker::difference_test {
namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(ProgramText, OfASmallProgram_HasAllThatAReaderAsksFor) {
  const std::string text = program_text(test::small_program());
  for (const char* part :
       {"program step\n", "of 2 ranks, same_graph", "declared 1 <= n",
        "own test.swish, definition ", "entry 1, graph ", "x: f64[s1, 3]",
        "s1 = x.size(0), at least 2, example 5", "lr > 0.5", "on some rank of the group: true",
        "saved_programs.cpp:", "all_to_all_single(", "total = %"})
    EXPECT_TRUE(has(text, part)) << part << "\n" << text;
}

TEST(ProgramJson, OfASmallProgram_IsOneDocumentWithTheSameNodes) {
  const SavedProgram program = test::small_program();
  const auto json = nlohmann::json::parse(program_json(program));
  EXPECT_EQ(json.at("format"), "lockstep.program/1");
  EXPECT_EQ(json.at("frame"), "step");
  ASSERT_EQ(json.at("entries").size(), 2U);
  const auto& nodes = json.at("entries")[1].at("nodes");
  const Graph& graph = program.entries[1].graph;
  ASSERT_EQ(nodes.size(), graph.nodes.size());
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    EXPECT_EQ(nodes[id].at("text"), graph.node_text(id));
    EXPECT_EQ(nodes[id].at("line"), graph.nodes[id].where.text());
  }
  EXPECT_EQ(json.at("entries")[1].at("guards").size(),
            graph.guards.size() + graph.group_guards.size());
}

TEST(ProgramDot, OfASmallProgram_HasEachNodeAndEachOperandOnce) {
  const SavedProgram program = test::small_program();
  const std::string dot = program_dot(program);
  EXPECT_TRUE(dot.starts_with("digraph \"step\" {"));
  for (std::size_t e = 0; e < program.entries.size(); ++e) {
    const Graph& graph = program.entries[e].graph;
    for (NodeId id = 0; id < graph.nodes.size(); ++id) {
      const std::string name = "\"e" + std::to_string(e) + "_" + std::to_string(id) + "\"";
      EXPECT_TRUE(has(dot, name + " [label=")) << name;
      for (const NodeId input : graph.nodes[id].inputs)
        EXPECT_TRUE(
            has(dot, "\"e" + std::to_string(e) + "_" + std::to_string(input) + "\" -> " + name));
    }
  }
  EXPECT_EQ(std::count(dot.begin(), dot.end(), '{'), std::count(dot.begin(), dot.end(), '}'));
}

TEST(ProgramDifference, OfEqualPrograms_IsNothingThoughLinesAndHintsDiffer) {
  const SavedProgram program = test::small_program();
  SavedProgram other = program;
  for (SavedEntry& entry : other.entries)
    for (Node& node : entry.graph.nodes) node.where.line += 7;
  other.entries[1].graph.symbols[0].hint += 1;
  EXPECT_TRUE(differences(program, other).empty());
}

TEST(ProgramDifference, OfOneNode_NamesItWithBothTextsAndLines) {
  const SavedProgram program = test::tiny_program();
  SavedProgram other = program;
  other.entries[0].graph.nodes[1].op = Op::Abs;
  other.entries[0].graph.nodes[1].where = {"model.cpp", 12};
  const auto found = differences(program, other);
  ASSERT_EQ(found.size(), 1U) << differences_text(found);
  EXPECT_EQ(found[0], (ProgramDifference{"entry 0, node", "%1: f32[s0] = neg(%0)",
                                         "%1: f32[s0] = abs(%0)   # model.cpp:12"}));
  EXPECT_EQ(differences_text({found[0]}),
            "entry 0, node\n  - %1: f32[s0] = neg(%0)\n  + %1: f32[s0] = abs(%0)   # "
            "model.cpp:12\n");
}

TEST(ProgramDifference, OfANodeInTheMiddle_IsThatNodeAndWhoReadsIt) {
  const SavedProgram program = test::tiny_program();
  SavedProgram other = program;
  Graph& graph = other.entries[0].graph;
  Node abs = graph.nodes[1];
  abs.op = Op::Abs;
  graph.nodes.insert(graph.nodes.begin() + 1, abs);
  graph.nodes[2].inputs = {1};
  graph.outputs[0].node = 2;
  ASSERT_EQ(first_error(other), std::nullopt);
  const auto found = differences(program, other);
  ASSERT_EQ(found.size(), 2U) << differences_text(found);
  EXPECT_EQ(found[0], (ProgramDifference{"entry 0, node", "", "%1: f32[s0] = abs(%0)"}));
  EXPECT_EQ(found[1],
            (ProgramDifference{"entry 0, node", "%1: f32[s0] = neg(%0)", "%2: f32[s0] = neg(%1)"}));
}

TEST(ProgramDifference, OfGuardsDecisionsAndEntries_IsNamed) {
  const SavedProgram program = test::small_program();
  SavedProgram other = program;
  other.entries[1].graph.guards.pop_back();
  other.ranks = 4;
  const std::string text = differences_text(differences(program, other));
  EXPECT_TRUE(has(text, "ranks\n  - 2\n  + 4\n")) << text;
  EXPECT_TRUE(has(text, "entry 1, guards\n  - ")) << text;
  other = program;
  other.entries.pop_back();
  EXPECT_TRUE(has(differences_text(differences(program, other)), "entry 1\n  - counts"));
}

}  // namespace
}  // namespace lockstep::worker::difference_test
