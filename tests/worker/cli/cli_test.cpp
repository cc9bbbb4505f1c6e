// The binary from outside: exit codes, what goes to which stream, one document, one sentence.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <tuple>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>

#include <lockstep/worker/files/checkpoint/saver.h>

namespace lockstep::worker::cli::cli_test {
namespace {

struct Ran {
  int code = -1;
  std::string out, err;
};

std::string contents(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

/// Runs `lockstep ARGUMENTS` by the shell, with both streams into files.
Ran run(const std::string& arguments, const std::string& environment = {}) {
  std::string name = testing::TempDir() + "lockstep-cli-XXXXXX";
  const std::filesystem::path scratch = mkdtemp(name.data());
  const std::string out = scratch / "out", err = scratch / "err";
  const int status = std::system(
      (environment + " " LOCKSTEP_BINARY " " + arguments + " >" + out + " 2>" + err + " </dev/null")
          .c_str());
  Ran ran{WIFEXITED(status) ? WEXITSTATUS(status) : -1, contents(out), contents(err)};
  std::filesystem::remove_all(scratch);
  return ran;
}

std::string scenario(const std::string& name) {
  return std::string(LOCKSTEP_SCENARIOS) + "/" + name + ".json";
}

TEST(Cli, Json_IsOneDocumentAndNothingElse) {
  const Ran ran = run("dryrun " + scenario("each_mismatch_in_order") + " --json");
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.err, "");
  const auto json = nlohmann::json::parse(ran.out);
  EXPECT_EQ(json["format"], "lockstep.dryrun/1");
  EXPECT_EQ(json["totals"]["errors"], 5);
}

TEST(Cli, Summary_HasNoColourInAPipe) {
  const Ran ran = run("dryrun " + scenario("wobbling_batch_compiles_once"));
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.out.find('\033'), std::string::npos);
  EXPECT_NE(ran.out.find("1-2 "), std::string::npos) << ran.out;  // calls alike stand in one line
}

TEST(Cli, UsageErrors_AreOneSentenceAndCode2) {
  for (const char* arguments :
       {"", "nonsense", "--nonsense", "dryrun", "dryrun /no/such/file", "dryrun /", "doctor extra",
        "dryrun x --nonsense", "dryrun / --seed 3", "coordinator --listen nowhere",
        "coordinator --nonsense", "status --nonsense", "explain", "explain /"}) {
    const Ran ran = run(arguments);
    EXPECT_EQ(ran.code, 2) << arguments;
    EXPECT_EQ(ran.out, "") << arguments;
    EXPECT_TRUE(ran.err.starts_with("lockstep: ")) << arguments << ran.err;
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << arguments << ran.err;
  }
}

/// A checkpoint of one rank, at step 5, by the program's own writer.
std::string checkpoint_in(const std::filesystem::path& scratch) {
  struct Alone final : CheckpointRanks {
    [[nodiscard]] Rank rank() const override { return Rank{0}; }
    [[nodiscard]] int size() const override { return 1; }
    [[nodiscard]] Result<bool> any(bool mine, const std::optional<Status>& failed) override {
      if (failed) return *failed;
      return mine;
    }
    [[nodiscard]] Result<void> settle(const std::optional<Status>& failed) override {
      if (failed) return *failed;
      return {};
    }
    [[nodiscard]] Result<std::vector<Bytes>> all_gather(Bytes mine) override {
      return std::vector<Bytes>{std::move(mine)};
    }
    [[nodiscard]] Result<void> talk(collectives::TreeTalk& mine) override {
      (void)mine.word();  // nobody else is there
      return {};
    }
    void report_busy() override {}
  } alone;
  Tensor x = Array::zeros(DType::F32, {2, 3});
  double rate = 0.5;
  StateLeaves leaves;
  StateWalk walk(leaves);
  walk("model.x", x), walk("rate", rate);
  CheckpointSaver saver(alone, scratch / "c", {});
  EXPECT_TRUE(saver.save(5, leaves) && saver.finish());
  return scratch / "c";
}

TEST(Cli, Checkpoint_ListsVerifiesAndMerges) {
  std::string name = testing::TempDir() + "lockstep-checkpoint-XXXXXX";
  const std::filesystem::path scratch = mkdtemp(name.data());
  const std::string folder = checkpoint_in(scratch);
  const Ran list = run("checkpoint list " + folder + " --json");
  EXPECT_EQ(list.code, 0) << list.err;
  const auto listed = nlohmann::json::parse(list.out);
  EXPECT_EQ(listed["format"], "lockstep.checkpoints/1");
  EXPECT_EQ(listed["checkpoints"][0]["step"], 5);
  EXPECT_EQ(listed["checkpoints"][0]["values"]["rate"], 0.5);
  EXPECT_EQ(run("checkpoint verify " + folder).code, 0);
  EXPECT_EQ(run("checkpoint verify " + folder + "/step-000005/").code, 0);
  const Ran merge = run("checkpoint merge " + folder + " --prefix model. --json");
  EXPECT_EQ(merge.code, 0) << merge.err;
  EXPECT_EQ(nlohmann::json::parse(merge.out)["tensors"], 1);
  EXPECT_TRUE(std::filesystem::exists(folder + "/merged-000005/model.safetensors"));
  for (const std::string& wrong :
       {"list " + folder + "/none", "verify " + folder + " --step 4",
        "merge " + folder + " --prefix y", "merge " + folder, "mend " + folder, std::string("list"),
        "merge " + folder + " --max-file 0", "list " + folder + " --output x"}) {
    const Ran ran = run("checkpoint " + wrong);
    EXPECT_EQ(ran.code, 2) << wrong;
    EXPECT_EQ(ran.out, "") << wrong;
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << wrong << ran.err;
  }
  std::ofstream(folder + "/step-000005/rank-00000.safetensors", std::ios::in | std::ios::out)
      .seekp(-1, std::ios::end)
      .put('x');
  const Ran damaged = run("checkpoint verify " + folder);
  EXPECT_EQ(damaged.code, 2);
  EXPECT_NE(damaged.err.find("tensor \"model.x\" is damaged"), std::string::npos) << damaged.err;
  std::filesystem::remove_all(scratch);
}

TEST(Cli, OptionThatIsNotKnown_IsNamedRatherThanWhatIsMissing) {
  for (const char* arguments : {"dryrun --bogus", "dryrun --json --bogus=3", "explain --bogus"}) {
    const Ran ran = run(arguments);
    EXPECT_EQ(ran.code, 2) << arguments;
    EXPECT_NE(ran.err.find("--bogus"), std::string::npos) << ran.err;
  }
  EXPECT_NE(run("dryrun --json").err.find("SCENARIO"), std::string::npos);
}

TEST(Cli, ValueThatIsMissingOrNoNumber_IsSaidInPlainWords) {
  for (const auto& [arguments, said] :
       {std::pair{"dryrun --ranks", "--ranks needs a value;"},
        {"status --token-file", "--token-file needs a value;"},
        {"trace --of two true", "--of = two is not understood;"},
        {"dryrun --ranks 0 x", "--ranks: Value 0 not in range 1 to 16777216;"}}) {
    const Ran ran = run(arguments);
    EXPECT_EQ(ran.code, 2) << arguments;
    EXPECT_TRUE(ran.err.starts_with(std::string("lockstep: ") + said)) << ran.err;
  }
}

TEST(Cli, NetworkOfADryRun_AddsCostsAndNothingElse) {
  const Ran plain = run("dryrun " + scenario("marks") + " --json");
  const Ran timed = run("dryrun " + scenario("marks") + " --json --network rdma");
  EXPECT_EQ(timed.code, 0);
  EXPECT_EQ(plain.out.find("\"cost\""), std::string::npos);
  const std::string shared = plain.out.substr(0, plain.out.size() - 2);
  EXPECT_EQ(timed.out.substr(0, shared.size()), shared);
  EXPECT_NE(timed.out.find("\"cost\": {\"network\": {\"name\":\"rdma\""), std::string::npos);
}

TEST(Cli, FilesOfADryRun_AreThereWholeOrNotAtAll) {
  const std::string folder = testing::TempDir();
  const std::string trace = folder + "/lockstep_cli.trace.json", csv = folder + "/lockstep_cli.csv";
  const std::string timed = "dryrun " + scenario("marks") + " --network shm --json";
  const Ran ran = run(timed + " --trace " + trace + " --csv " + csv);
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out, run(timed).out);
  EXPECT_EQ(contents(csv).substr(0, 19), "call,frame,outcome,");
  EXPECT_TRUE(std::ifstream(trace).good());
  std::remove(trace.c_str());
  std::remove(csv.c_str());
  const Ran nowhere = run(timed + " --csv " + folder + "/no/such/folder.csv");
  EXPECT_EQ(nowhere.code, 7);
  EXPECT_EQ(nowhere.out, "");
  EXPECT_EQ(std::count(nowhere.err.begin(), nowhere.err.end(), '\n'), 1) << nowhere.err;
}

TEST(Cli, TimesOfADryRun_NeedANetworkThatIsKnown) {
  for (const char* options : {"--trace /tmp/t.json", "--csv /tmp/t.csv", "--network token-ring",
                              "--network alpha=1", "--network ../rdma"}) {
    const Ran ran = run("dryrun " + scenario("marks") + " " + options);
    EXPECT_EQ(ran.code, 2) << options;
    EXPECT_EQ(ran.out, "");
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
  }
}

TEST(Cli, Calibration_SaysHowItIsStarted) {
  const Ran ran = run("dryrun --calibrate", "LOCKSTEP_CACHE_DIR=" + testing::TempDir());
  EXPECT_EQ(ran.out, "");
#ifdef HAVE_MPI
  EXPECT_EQ(ran.code, 2);
  EXPECT_NE(ran.err.find("mpirun -n"), std::string::npos) << ran.err;
#else
  EXPECT_EQ(ran.code, 7);
#endif
  for (const char* wrong : {"dryrun --calibrate x.json", "dryrun --calibrate --name rdma",
                            "dryrun --calibrate --name ../x"})
    EXPECT_EQ(run(wrong).code, 2) << wrong;
}

#ifdef HAVE_MPI
TEST(Cli, CalibratedNetwork_IsStoredForItsUserAloneAndUsed) {
  const std::string folder = testing::TempDir() + "/lockstep_calibration";
  std::filesystem::remove_all(folder);
  const std::string cache = "LOCKSTEP_CACHE_DIR=" + folder;
  const std::string out = folder + ".out";
  const std::string start =
      cache + " " MPIRUN " -t 220 -n 3 " LOCKSTEP_BINARY " dryrun --calibrate --name mine >" + out +
      " 2>&1";
  ASSERT_EQ(std::system(start.c_str()), 0) << contents(out);
  EXPECT_NE(contents(out).find("stored: "), std::string::npos) << contents(out);
  const std::filesystem::path file = folder + "/networks/mine.network";
  EXPECT_EQ(std::filesystem::status(file).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  const Ran ran = run("dryrun " + scenario("marks") + " --json --network mine", cache);
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.out.find("\"cost\": {\"network\": {\"name\":\"mine\""), std::string::npos);
  std::filesystem::remove_all(folder);
  std::filesystem::remove(out);
}
#endif

TEST(Cli, OtherWaysAndSweeps_AreKeysAndDocumentsOfTheirOwn) {
  const std::string plain = run("dryrun " + scenario("marks") + " --json").out;
  EXPECT_EQ(plain.find("compare"), std::string::npos);
  const Ran ways = run("dryrun " + scenario("marks") + " --json --compare");
  EXPECT_EQ(ways.code, 0) << ways.err;
  EXPECT_NE(ways.out.find("\"way\":\"upstream\""), std::string::npos) << ways.out;
  const Ran sweep =
      run("dryrun " + scenario("generated_jagged_batches") + " --json --sweep seed=1..3");
  EXPECT_EQ(sweep.code, 0) << sweep.err;
  EXPECT_TRUE(sweep.out.starts_with("{\"format\": \"lockstep.sweep/1\"")) << sweep.out;
  const Ran rows = run("dryrun " + scenario("generated_jagged_batches") + " --sweep seed=1..3");
  EXPECT_EQ(rows.code, 0) << rows.err;
  EXPECT_EQ(std::count(rows.out.begin(), rows.out.end(), '\n'), 6) << rows.out;
  const Ran nowhere = run("dryrun " + scenario("generated_jagged_batches") +
                          " --sweep seed=1..3 --report /no/such/folder/r.html");
  EXPECT_EQ(nowhere.code, 7);
  EXPECT_EQ(nowhere.out, "") << "nothing runs before a file that cannot be written is refused";
  EXPECT_NE(nowhere.err.find("The report cannot be written to /no/such/folder/r.html"),
            std::string::npos)
      << nowhere.err;
  const std::string below_a_file = scenario("marks") + "/r.html";
  const Ran below = run("dryrun " + scenario("generated_jagged_batches") +
                        " --sweep seed=1..3 --report " + below_a_file);
  EXPECT_EQ(below.code, 7);
  EXPECT_EQ(below.out, "");
  for (const char* options : {" --sweep ranks=0..8", " --sweep seed=1..3 --compare",
                              " --compare --no-counterfactual", " --sweep seed=1..99"}) {
    const Ran bad = run("dryrun " + scenario("generated_jagged_batches") + options);
    EXPECT_EQ(bad.code, 2) << options;
    EXPECT_EQ(bad.out, "");
    EXPECT_EQ(std::count(bad.err.begin(), bad.err.end(), '\n'), 1) << bad.err;
  }
}

TEST(Cli, ReportOverARecord_IsRefused) {
  const std::filesystem::path folder = testing::TempDir() + "lockstep-cli-record";
  std::filesystem::create_directories(folder);
  const std::string part = (folder / "rank-00000.jsonl").string();
  std::ofstream(part) << "what a rank wrote";
  for (const std::string command : {"dryrun ", "explain "}) {
    const Ran ran = run(command + folder.string() + " --report " + part);
    EXPECT_EQ(ran.code, 2) << ran.err;
    EXPECT_EQ(ran.out, "");
    EXPECT_NE(ran.err.find("is a part of the record"), std::string::npos) << ran.err;
    std::string kept;
    std::getline(std::ifstream(part), kept);
    EXPECT_EQ(kept, "what a rank wrote");
  }
  std::filesystem::remove_all(folder);
}

TEST(Cli, HelpAndVersion_SucceedOnStdout) {
  for (const char* arguments : {"--help", "dryrun --help", "doctor --help", "explain --help",
                                "coordinator --help", "status --help", "--version"}) {
    const Ran ran = run(arguments);
    EXPECT_EQ(ran.code, 0) << arguments;
    EXPECT_NE(ran.out, "") << arguments;
    EXPECT_EQ(ran.err, "") << arguments;
  }
}

TEST(Cli, FullDisk_IsSaid) {
  const int status = std::system(
      (LOCKSTEP_BINARY " dryrun " + scenario("marks") + " --json >/dev/full 2>/dev/null").c_str());
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST(Cli, Doctor_ListsItsChecks) {
  const Ran ran = run("doctor --json");
  const auto json = nlohmann::json::parse(ran.out);
  EXPECT_EQ(json["format"], "lockstep.doctor/1");
  EXPECT_EQ(ran.code, json["ok"].get<bool>() ? 0 : 7);
  std::map<std::string, std::string> grades;
  for (const auto& check : json["checks"]) grades[check["name"]] = check["status"];
  EXPECT_EQ(grades.size(), 10U);
  for (const char* name : {"cuda", "nvrtc", "cublas", "nccl"})
    EXPECT_TRUE(grades[name] == "ok" || grades[name] == "warn") << name;
  EXPECT_EQ(grades["compiler"], "ok");
  const std::string homeless = "env -u HOME -u XDG_CACHE_HOME -u LOCKSTEP_CACHE_DIR";
  EXPECT_NE(run("doctor", homeless).out.find("/tmp/lockstep-"), std::string::npos)
      << "the directory that jobs take";
#ifdef HAVE_MPI
  EXPECT_EQ(grades["mpi order"], "ok");
#else
  EXPECT_EQ(grades["mpi order"], "warn") << "not tested: this build has no MPI";
  EXPECT_EQ(grades["mpi"], "warn");
  EXPECT_NE(ran.out.find("not in this build: ranks meet over TCP"), std::string::npos) << ran.out;
#endif
}

TEST(Cli, Doctor_LooksAtTheCompilerThatJobsTake) {
  const auto compiler = [](const std::string& environment) {
    const Ran ran = run("doctor --json", environment);
    const auto json = nlohmann::json::parse(ran.out);
    for (const auto& check : json["checks"])
      if (check["name"] == "compiler")
        return std::pair(check["status"].get<std::string>(), check["detail"].get<std::string>());
    return std::pair<std::string, std::string>();
  };
  EXPECT_EQ(compiler("CXX=/no/such/compiler").first, "ok") << "jobs do not look at it";
  const auto named = compiler("LOCKSTEP_CXX=/no/such/compiler");
  EXPECT_EQ(named.first, "fail");
  EXPECT_NE(named.second.find("LOCKSTEP_CXX names /no/such/compiler"), std::string::npos);
  EXPECT_EQ(compiler("LOCKSTEP_CXX=false").first, "fail");
  const auto none = compiler("PATH=/no/such/folder");
  EXPECT_EQ(none.first, "warn");
  EXPECT_NE(none.second.find("kernels are interpreted"), std::string::npos) << none.second;
}

#ifdef EMULATED_CUDA_FOLDER
TEST(Cli, DoctorOnEmulatedCuda_NamesEachLibraryWithPathAndVersion) {
  for (const auto& [version, cuda, major] :
       {std::tuple{"12080", "12.8", "12"}, {"13000", "13.0", "13"}}) {
    const Ran ran = run("doctor --json", "LD_LIBRARY_PATH=" EMULATED_CUDA_FOLDER
                                         ":$LD_LIBRARY_PATH EMULATED_CUDA_VERSION=" +
                                             std::string(version));
    std::map<std::string, std::string> details;
    const auto json = nlohmann::json::parse(ran.out);
    for (const auto& check : json["checks"])
      if (check["status"] == "ok") details[check["name"]] = check["detail"];
    const auto at = [](const std::string& file) {
      return " (" EMULATED_CUDA_FOLDER "/" + file + ")";
    };
    const std::string of = major;
    EXPECT_EQ(details["cuda"],
              std::string("1 device, NVIDIA driver of CUDA ") + cuda + at("libcuda.so.1"));
    EXPECT_EQ(details["nvrtc"], "NVRTC " + of + ".999" + at("libnvrtc.so." + of));
    EXPECT_EQ(details["cublas"], "cuBLAS " + of + ".99.99" + at("libcublas.so." + of));
#ifdef HAVE_NCCL
    EXPECT_TRUE(details["nccl"].starts_with("NCCL 2.")) << details["nccl"];
    EXPECT_TRUE(details["nccl"].ends_with(at("libnccl.so.2"))) << details["nccl"];
#endif
  }
}
#endif

#ifdef HAVE_MPI
TEST(FailureMode29, Doctor_MpiThatBreaksRankOrder_IsFound) {
  const Ran ran =
      run("doctor --json",
          "OMPI_MCA_coll_tuned_use_dynamic_rules=1 OMPI_MCA_coll_tuned_allreduce_algorithm=4");
  EXPECT_EQ(ran.code, 7);
  EXPECT_NE(ran.out.find("out of rank order"), std::string::npos) << ran.out;
}
#endif

TEST(Cli, SixteenMillionRanks_TakeLessThanASecond) {
  const std::string path = testing::TempDir() + "lockstep-sixteen-million.json";
  {
    std::ofstream file(path);
    file << R"({"format": "lockstep.scenario/1", "world_size": 16777216, "calls": [)";
    for (int i = 0; i < 100; ++i)
      file << (i == 0 ? "" : ",")
           << R"({"frame": "f", "inputs": [{"ranks": "0-9999999", "values": {"x": {"tensor": [)"
           << 5 + i % 7 << R"(]}}}, {"ranks": "10000000-16777215", "values": {"x": {"tensor": [)"
           << 6 + i % 5 << "]}}}]}";
    file << "]}";
  }
  const auto start = std::chrono::steady_clock::now();
  const Ran ran = run("dryrun " + path + " --json");
  const auto took = std::chrono::steady_clock::now() - start;
  std::filesystem::remove(path);
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_LT(took, std::chrono::seconds(1));
}

}  // namespace
}  // namespace lockstep::worker::cli::cli_test
