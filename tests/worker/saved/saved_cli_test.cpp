// `lockstep run`, `show` and `trace --save` from outside.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "compiled_graph.h"
#include "launch.h"
#include "saved_programs.h"
#include "tracing.h"
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <lockstep/worker/files/safetensors/file.h>
#include <lockstep/worker/files/safetensors/writer.h>
#include <lockstep/worker/files/saved/program_text.h>
#include <lockstep/worker/files/saved/saved_file.h>
#include <lockstep/worker/tensor/language/collective_ops.h>
#include <lockstep/worker/tensor/language/tensor_ops.h>

namespace lockstep::worker::saved_cli_test {
namespace {

namespace fs = std::filesystem;

/// y = x * n + lr where wanted, and its total over all ranks.
SavedProgram affine(int ranks) {
  test::DecisionBuilder decision;
  decision.flag("double", true).number("lr").integer("n", test::Dim(3, 0));
  decision.tensor("x", DType::F64, {test::Dim(5, 2), 2});
  const auto body = [](Trace& t) {
    const Tensor x = t.tensor_input(t.source("x"));
    const Tensor y = x * t.int_input(t.source("n")) + t.float_input(t.source("lr"));
    t.output("y", t.bool_input(t.source("double")) ? y * 2.0 : y);
    t.output("total", all_reduce(sum(y)));
  };
  Graph graph = trace(test::setup(decision.get(), ranks), body).value();
  return test::program_of(std::move(graph), decision.get(), ranks);
}

double element(int rank, std::int64_t i) { return 0.5 * static_cast<double>(i) + rank; }

class SavedCli : public testing::Test {
 protected:
  struct Ran {
    int code = -1;
    std::string out, err;
  };
  Ran run(const std::string& arguments, const std::string& environment = {}) const {
    const std::string out = folder / "out", err = folder / "err";
    const int status =
        std::system((environment + " LOCKSTEP_CACHE_DIR=" TEST_CACHE " " LOCKSTEP " " + arguments +
                     " >" + out + " 2>" + err + " </dev/null")
                        .c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, contents(out), contents(err)};
  }
  /// Code 2 and one sentence that says this.
  void expect_usage(const std::string& arguments, const std::string& said) const {
    const Ran ran = run(arguments);
    EXPECT_EQ(ran.code, 2) << arguments << ran.err;
    EXPECT_EQ(ran.out, "") << arguments;
    EXPECT_TRUE(ran.err.starts_with("lockstep: ")) << ran.err;
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
    EXPECT_NE(ran.err.find(said), std::string::npos) << ran.err;
  }
  std::string write(const std::string& name, const SavedProgram& program) const {
    const std::string path = folder / name;
    const auto written = write_program(path, program);
    EXPECT_TRUE(written) << written.error().text();
    return path;
  }
  static Array number(double value, DType dtype) {
    return Array::of(dtype, {}, std::span(&value, 1));
  }
  std::string write_inputs(const std::string& name, int rank, std::int64_t rows,
                           std::int64_t columns = 2) const {
    Array x(DType::F64, {rows, columns});
    for (std::int64_t i = 0; i < x.elements(); ++i) x.set(i, element(rank, i));
    const std::string path = folder / name;
    const auto written = write_safetensors(path, {{"x", x},
                                                  {"n", number(3, DType::I64)},
                                                  {"lr", number(0.25, DType::F64)},
                                                  {"double", number(1, DType::Bool)}});
    EXPECT_TRUE(written) << written.error().text();
    return path;
  }
  /// What the program gives rank `rank`, of ranks with that many rows.
  static void expect_outputs(const std::string& path, int rank,
                             const std::vector<std::int64_t>& rows) {
    auto file = SafetensorsFile::open(path);
    ASSERT_TRUE(file) << file.error().text();
    const auto y = file->read("y"), total = file->read("total");
    ASSERT_TRUE(y && total);
    const std::int64_t mine = rows[static_cast<std::size_t>(rank)];
    ASSERT_EQ(y->sizes(), (std::vector<std::int64_t>{mine, 2}));
    for (std::int64_t i = 0; i < 2 * mine; ++i)
      EXPECT_EQ(y->at(i), 2 * (3 * element(rank, i) + 0.25));
    double all = 0;
    for (std::size_t r = 0; r < rows.size(); ++r)
      for (std::int64_t i = 0; i < 2 * rows[r]; ++i)
        all += 3 * element(static_cast<int>(r), i) + 0.25;
    EXPECT_EQ(total->at(0), all);
  }
  Folder folder;
};

TEST_F(SavedCli, Run_OnOneRank_WritesTheOutputsAndSaysThem) {
  const std::string program = write("step.lsp", affine(1)),
                    inputs = write_inputs("x.safetensors", 0, 4);
  const std::string outputs = folder / "y.safetensors";
  const Ran ran = run("run " + program + " --inputs " + inputs + " --outputs " + outputs);
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.out.find("y: f64[4, 2]\n"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("total: f64[] = "), std::string::npos) << ran.out;
  expect_outputs(outputs, 0, {4});
  const Ran json = run("run " + program + " --json --inputs " + inputs);
  ASSERT_EQ(json.code, 0) << json.err;
  const auto document = nlohmann::json::parse(json.out);
  EXPECT_EQ(document.at("format"), "lockstep.run/1");
  EXPECT_EQ(document.at("outputs").at("y").at("sizes"), (std::vector<std::int64_t>{4, 2}));
}

TEST_F(SavedCli, Run_PacksObjectsThatNeedNoCompiler) {
  const std::string program = write("step.lsp", affine(1)),
                    inputs = write_inputs("x.safetensors", 0, 4);
  const std::string packed = folder / "packed.lsp", outputs = folder / "y.safetensors";
  const Ran ran = run("run " + program + " --inputs " + inputs + " --pack " + packed);
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Ran alone = run("run " + packed + " --inputs " + inputs + " --outputs " + outputs,
                        "PATH=/nowhere LOCKSTEP_LOG=info LOCKSTEP_WORLD_SIZE=1 LOCKSTEP_RANK=0 "
                        "LOCKSTEP_RENDEZVOUS=" +
                            (folder / "meet"));
  ASSERT_EQ(alone.code, 0) << alone.err;
  EXPECT_NE(alone.err.find("all of them packed"), std::string::npos) << alone.err;
  expect_outputs(outputs, 0, {4});
}

TEST_F(SavedCli, Run_WithWrongFilesOrInputs_IsOneSentenceAndCode2) {
  const std::string program = write("step.lsp", affine(1));
  const std::string damaged = folder / "damaged.lsp";
  std::string bytes = contents(program);
  bytes[bytes.size() / 2] ^= 1;
  std::ofstream(damaged, std::ios::binary) << bytes;
  expect_usage("run", "FILE");
  expect_usage("run " + program + " --nonsense", "--nonsense");
  expect_usage("run " + (folder / "none.lsp"), "none.lsp cannot be read");
  expect_usage("run " + damaged, "damaged.lsp is damaged");
  expect_usage("run " + write("two.lsp", affine(2)), "was traced on 2 ranks");
  expect_usage("run " + program, "is missing");
  expect_usage("run " + program + " --inputs " + (folder / "none"), "none");
  expect_usage("run " + program + " --inputs " + write_inputs("five", 0, 4, 5), "x.size(1) is 5");
  expect_usage("run " + write("own.lsp", test::small_program()), "test.swish");
  expect_usage("run --other-ranks " + write("two.lsp", affine(2)), "needs as many: run it on 2");
}

TEST_F(SavedCli, Run_WithOtherRanks_RunsWhatHasNoCollective) {
  SavedProgram program = test::tiny_program();
  program.ranks = 5;
  const std::string path = write("tiny.lsp", program), inputs = folder / "x";
  ASSERT_TRUE(write_safetensors(inputs, {{"x", Array::zeros(DType::F32, {4})}}));
  expect_usage(
      "run " + path + " --inputs " + inputs,
      "was traced on 5 ranks, and the job has 1; run it on as many, or save it again on 1, or");
  const Ran ran = run("run --other-ranks " + path + " --inputs " + inputs);
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.out.find("y: f32[4]"), std::string::npos) << ran.out;
}

TEST_F(SavedCli, Show_HasTextJsonAndPictures) {
  const SavedProgram made = test::small_program();
  const std::string program = write("small.lsp", made);
  const Ran text = run("show " + program);
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_EQ(text.out, program_text(made));
  const Ran json = run("show " + program + " --json --dot " + (folder / "small.dot"));
  EXPECT_EQ(json.code, 0) << json.err;
  EXPECT_EQ(json.out, program_json(made) + "\n");
  EXPECT_EQ(contents(folder / "small.dot"), program_dot(made));
  const Ran none = run("show " + program + " --svg " + (folder / "small.svg"), "PATH=/nowhere");
  EXPECT_EQ(none.code, 7);
  EXPECT_EQ(none.out, "");
  EXPECT_NE(none.err.find("there is no `dot`"), std::string::npos) << none.err;
  EXPECT_FALSE(fs::exists(folder / "small.svg"));
  if (std::system("command -v dot >/dev/null") != 0) GTEST_SKIP() << "no graphviz";
  const Ran svg = run("show " + program + " --svg " + (folder / "small.svg"));
  EXPECT_EQ(svg.code, 0) << svg.err;
  const std::string picture = contents(folder / "small.svg");
  EXPECT_NE(picture.find("<svg"), std::string::npos);
  EXPECT_NE(picture.find("all_to_all_single"), std::string::npos);
}

TEST_F(SavedCli, ShowAgainst_SaysWhatDiffersWithCode3) {
  const std::string one = write("one.lsp", test::tiny_program());
  SavedProgram other = test::tiny_program();
  other.entries[0].graph.nodes[1].op = Op::Abs;
  const std::string two = write("two.lsp", other);
  EXPECT_EQ(run("show " + one + " --against " + one).code, 0);
  const Ran ran = run("show " + one + " --against " + two);
  EXPECT_EQ(ran.code, 3);
  EXPECT_NE(ran.out.find("  - %1: f32[s0] = neg(%0)\n  + %1: f32[s0] = abs(%0)\n"),
            std::string::npos)
      << ran.out;
  const Ran json = run("show " + one + " --json --against " + two);
  EXPECT_EQ(json.code, 3);
  EXPECT_FALSE(nlohmann::json::parse(json.out).at("differences").empty());
  expect_usage("show", "FILE");
  expect_usage("show " + (folder / "none"), "none cannot be read");
  expect_usage("show " + one + " --against " + (folder / "none"), "none cannot be read");
  expect_usage("show " + one + " --against " + two + " --dot x", "--against");
}

#ifdef HAVE_MPI
TEST_F(SavedCli, Run_OnTwoRanks_HasTheFilesOfEachRank) {
  const std::string program = write("step.lsp", affine(2));
  write_inputs("x.0", 0, 4);
  write_inputs("x.1", 1, 3);
  const Launched ran =
      launch_ranks(2, std::string(LOCKSTEP) + " run " + program + " --inputs '" +
                          (folder / "x.{rank}") + "' --outputs '" + (folder / "y.{rank}") + "'");
  ASSERT_EQ(ran.exit_code, 0) << ran.output;
  EXPECT_EQ(ran.count("y: f64[4, 2]"), 1) << ran.output;
  for (const int rank : {0, 1})
    expect_outputs(folder / ("y." + std::to_string(rank)), rank, {4, 3});
  // All ranks have the same inputs, and rank 0's outputs are written.
  const Launched same = launch_ranks(2, std::string(LOCKSTEP) + " run " + program + " --inputs " +
                                            (folder / "x.0") + " --outputs " + (folder / "y"));
  ASSERT_EQ(same.exit_code, 0) << same.output;
  EXPECT_TRUE(fs::exists(folder / "y"));
  // Inputs that one rank lacks are the error of all, said once.
  const Launched lacks = launch_ranks(
      2, std::string(LOCKSTEP) + " run " + program + " --inputs '" + (folder / "x.{rank}x") + "'");
  EXPECT_EQ(lacks.exit_code, 2) << lacks.output;
  EXPECT_EQ(lacks.count("lockstep: BAD_INPUT"), 1) << lacks.output;
}
#endif

#ifdef TRACE_RANK
TEST_F(SavedCli, TraceSave_WritesAFileForEachFrame) {
  const Ran ran =
      run("trace --of 2 --all --save " + (folder / "programs") + " " TRACE_RANK " calls");
  ASSERT_EQ(ran.code, 0) << ran.err;
  int files = 0;
  for (const auto& entry : fs::directory_iterator(folder / "programs")) {
    ++files;
    EXPECT_EQ(entry.path().extension(), ".lsp");
    EXPECT_NE(ran.out.find("in " + entry.path().string()), std::string::npos) << ran.out;
    const auto program = read_program(entry.path().string(), {.known = {}, .stand_ins = true});
    ASSERT_TRUE(program) << program.error().text();
    EXPECT_EQ(program->ranks, 2);
    EXPECT_EQ(run("show " + entry.path().string()).code, 0);
  }
  EXPECT_GE(files, 1);
}

TEST_F(SavedCli, TraceSave_OfRanksWithOtherGraphs_WritesAFileForEach) {
  const std::string programs = folder / "programs";
  const Ran ran = run("trace --of 4 --all --save " + programs + " " TRACE_RANK " apart");
  ASSERT_EQ(ran.code, 0) << ran.err;
  const std::string most = programs + "/apart.ranks-0,2-3.lsp",
                    one = programs + "/apart.ranks-1.lsp";
  EXPECT_NE(ran.out.find("saved apart of ranks 0,2-3 in " + most + "\n"), std::string::npos)
      << ran.out;
  EXPECT_NE(ran.out.find("saved apart of rank 1 in " + one + "\n"), std::string::npos) << ran.out;
  EXPECT_LT(ran.out.find("saved apart of ranks 0,2-3"), ran.out.find("saved apart of rank 1"));
  EXPECT_EQ(std::distance(fs::directory_iterator(programs), {}), 2);
  const Ran differ = run("show " + most + " --against " + one);
  EXPECT_EQ(differ.code, 3) << differ.err;
  EXPECT_NE(differ.out.find("mul"), std::string::npos) << differ.out;
}

TEST_F(SavedCli, TraceSave_OfEveryConsistency_HasTheExamplesOfEachRank) {
  const std::string programs = folder / "programs";
  const Ran ran = run("trace --of 2 --all --calls 14 --save " + programs + " " TRACE_RANK " kinds");
  ASSERT_EQ(ran.code, 0) << ran.err;
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(programs)) names.insert(entry.path().filename());
  // Under none of these is a rank's graph traced with the sizes of another.
  std::set<std::string> expected;
  for (const char* frame : {"audited", "collectives", "local", "sizes"})
    for (const char* rank : {"0", "1"})
      expected.insert(std::string(frame) + ".ranks-" + rank + ".lsp");
  EXPECT_EQ(names, expected) << ran.out;
}

TEST_F(SavedCli, Trace_OfAProgramThatLoads_TracesItsCallsAndSavesWhatItLoaded) {
  const std::string program = write("step.lsp", affine(2)), programs = folder / "programs";
  for (const char* ranks : {"--all", "--rank 1"}) {
    SCOPED_TRACE(ranks);
    const Ran ran = run(std::string("trace --of 2 ") + ranks + " --json --save " + programs +
                        " " TRACE_RANK " loads " + program);
    ASSERT_EQ(ran.code, 2) << ran.err;  // of the call that no entry serves
    const auto report = nlohmann::json::parse(ran.out);
    std::vector<std::string> outcomes;
    for (const auto& call : report.at("calls")) outcomes.push_back(call.at("outcome"));
    EXPECT_EQ(outcomes, (std::vector<std::string>{"reused", "reused", "error", "reused"}))
        << ran.out;
    const std::string said = report.at("calls").at(2).at("error").at("message");
    EXPECT_NE(said.find("no entry of the saved program"), std::string::npos) << said;
    fs::remove_all(programs);
  }
  const Ran saved =
      run("trace --of 2 --all --save " + programs + " " TRACE_RANK " loads " + program);
  ASSERT_EQ(saved.code, 2) << saved.err;
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(programs)) files.push_back(entry.path());
  ASSERT_EQ(files.size(), 1U) << saved.out;
  EXPECT_EQ(contents(files[0]), contents(program));
  // A file for another number of ranks is what the job would say.
  const Ran three = run("trace --of 3 --all " TRACE_RANK " loads " + program);
  EXPECT_EQ(three.code, 2) << three.out;
  EXPECT_NE((three.out + three.err).find("was traced on 2 ranks, and the job has 3"),
            std::string::npos)
      << three.out << three.err;
}

#ifdef HAVE_MPI
TEST_F(SavedCli, Run_OfTracedRanksWithOtherGraphs_RunsTheFileOfEachRank) {
  const std::string programs = folder / "programs";
  const Ran ran = run("trace --of 2 --all --save " + programs + " " TRACE_RANK " apart");
  ASSERT_EQ(ran.code, 0) << ran.err;
  for (const int rank : {0, 1}) {
    Array rows(DType::F64, {3, 3});
    for (std::int64_t i = 0; i < rows.elements(); ++i) rows.set(i, 1);
    ASSERT_TRUE(write_safetensors(folder / ("x." + std::to_string(rank)), {{"rows", rows}}));
  }
  const Launched both =
      launch_ranks(2, std::string(LOCKSTEP) + " run '" + programs +
                          "/apart.ranks-{rank}.lsp' --inputs '" + (folder / "x.{rank}") + "'");
  ASSERT_EQ(both.exit_code, 0) << both.output;
  EXPECT_EQ(both.count("rows: f64[] = 27"), 1) << both.output;  // 9 + 2 * 9
}
#endif
#endif

}  // namespace
}  // namespace lockstep::worker::saved_cli_test
