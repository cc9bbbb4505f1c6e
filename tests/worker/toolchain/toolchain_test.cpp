// Building one unit, and which failure is whose.
#include <filesystem>
#include <fstream>

#include "compiled_graph.h"
#include "graph_builder.h"
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lockstep/worker/compile/codegen/codegen.h>
#include <lockstep/worker/compile/execution/loaded_object.h>
#include <lockstep/worker/compile/toolchain/shared_build.h>

namespace lockstep::worker::toolchain_test {
namespace {

namespace fs = std::filesystem;
using shapes::Expr;

class ToolchainTest : public testing::Test {
 protected:
  ToolchainTest() {
    std::string pattern = (fs::temp_directory_path() / "lockstep-toolchain-XXXXXX").string();
    root_ = ::mkdtemp(pattern.data());
  }
  ~ToolchainTest() override { fs::remove_all(root_); }

  static Program program() {
    GraphBuilder g("small");
    const NodeId x = g.input("x", DType::F64, {Expr(4)});
    g.output(g.op(Op::Exp, {x}));
    return generate(g.take()).value();
  }
  /// A compiler that answers the questions at open() and then does what `script` says.
  HostToolchain::Options fake_compiler(const std::string& script) {
    const fs::path path = root_ / "fake-c++";
    std::ofstream(path)
        << "#!/bin/sh\ncase \"$*\" in *--version*|*-###*) echo fake 1; exit 0;; esac\n"
        << script << "\n";
    ::chmod(path.c_str(), 0700);
    return {.compiler = path.string()};
  }
  Status failure_of(const HostToolchain::Options& options) {
    auto toolchain = HostToolchain::open(options);
    EXPECT_TRUE(toolchain.has_value());
    const auto built = (*toolchain)->build("int x;");
    EXPECT_FALSE(built.has_value());
    return built ? Status{} : built.error();
  }

  fs::path root_;
};

TEST_F(ToolchainTest, Cost_CountsTheCompiler) {
  auto toolchain = HostToolchain::open({}).value();
  ASSERT_TRUE(toolchain->build(program().units[0]).has_value());
  EXPECT_EQ(toolchain->cost().compiles, 1);
  EXPECT_GT(toolchain->cost().cpu.count(), 0);
}

TEST_F(ToolchainTest, SameUnitBuiltTwice_IsTheSameBytes) {
  const Program p = program();
  EXPECT_EQ(test_toolchain().build(p.units[0]).value(), test_toolchain().build(p.units[0]).value());
}

TEST_F(ToolchainTest, UnitKey_CoversTextFlagsAndCompiler) {
  const Program p = program();
  const auto usual = HostToolchain::open({}).value();
  Program changed = p;
  changed.units[0] += "// more\n";
  auto other = HostToolchain::open({.flags = {"-std=c++20", "-O1", "-shared", "-fPIC"}}).value();
  const auto key = p.unit_key(0, usual->fingerprint());
  EXPECT_NE(key, changed.unit_key(0, usual->fingerprint()));
  EXPECT_NE(key, p.unit_key(0, other->fingerprint()));
  EXPECT_EQ(key, program().unit_key(0, HostToolchain::open({}).value()->fingerprint()));
}

TEST_F(ToolchainTest, BrokenText_IsACompileErrorThatQuotesTheCompiler) {
  const auto built = test_toolchain().build("void f() {\n  return nonsense;\n}\n");
  ASSERT_FALSE(built.has_value());
  EXPECT_EQ(built.error().code, Code::CompileError);
  EXPECT_NE(built.error().message.find("<stdin>:2:"), std::string::npos) << built.error().message;
  EXPECT_NE(built.error().message.find("nonsense"), std::string::npos) << built.error().message;
}

TEST_F(ToolchainTest, MissingCompiler_IsEnvironment) {
  const auto toolchain = HostToolchain::open({.compiler = "/no/such/compiler"});
  ASSERT_FALSE(toolchain.has_value());
  EXPECT_EQ(toolchain.error().code, Code::Environment);
  EXPECT_NE(toolchain.error().message.find("/no/such/compiler"), std::string::npos);
}

TEST_F(ToolchainTest, KilledSlowOrSilentCompiler_IsEnvironment) {
  EXPECT_EQ(failure_of(fake_compiler("kill -9 $$")).code, Code::Environment);
  EXPECT_EQ(failure_of(fake_compiler("exit 0")).code, Code::Environment);
  EXPECT_EQ(
      failure_of(
          fake_compiler(
              "echo 'cc1plus: fatal error: error writing: No space left on device' >&2; exit 1"))
          .code,
      Code::Environment);
}

using FailureMode28 = ToolchainTest;
TEST_F(FailureMode28, CompilerThatHangs_IsEndedAtItsLimit) {
  auto slow = fake_compiler("sleep 60");
  slow.limit = std::chrono::milliseconds(300);
  const Status status = failure_of(slow);
  EXPECT_EQ(status.code, Code::Environment);
  EXPECT_NE(status.message.find("did not finish"), std::string::npos);
}

TEST_F(ToolchainTest, CompilerThatComplainsAboutTheText_IsACompileError) {
  EXPECT_EQ(failure_of(fake_compiler("echo '<stdin>:3:1: error: no' >&2; exit 1")).code,
            Code::CompileError);
}

// Regression: under another locale a text that no compiler takes was an environment failure.
TEST_F(ToolchainTest, CompilerThatKnowsOtherLanguages_IsAskedInEnglish) {
  EXPECT_EQ(failure_of(fake_compiler("case \"$LC_ALL\" in C) word=error;; *) word=Fehler;; esac\n"
                                     "echo \"<stdin>:3:1: $word: no\" >&2; exit 1"))
                .code,
            Code::CompileError);
}

// Regression: the message was that of the driver, "ld returned 1 exit status".
TEST_F(ToolchainTest, LinkerThatFails_IsQuotedWithItsReason) {
  const Status status = failure_of(
      fake_compiler("echo '/usr/bin/ld: final link failed: No space left on device' >&2\n"
                    "echo 'collect2: error: ld returned 1 exit status' >&2; exit 1"));
  EXPECT_EQ(status.code, Code::Environment);
  EXPECT_TRUE(status.message.ends_with("final link failed: No space left on device"))
      << status.message;
}

TEST_F(ToolchainTest, CompilerThatFailsInSilence_IsToldSo) {
  EXPECT_TRUE(failure_of(fake_compiler("exit 3"))
                  .message.ends_with("fake-c++ failed with status 3 and said nothing"));
}

TEST_F(ToolchainTest, Build_LeavesNoFiles) {
  const auto entries = [] {
    return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
  };
  const auto before = entries();
  ASSERT_TRUE(test_toolchain().build(program().units[0]).has_value());
  EXPECT_EQ(entries(), before);
  EXPECT_TRUE(fs::is_empty(root_));
}

TEST_F(ToolchainTest, ObjectsLoadedInTurn_AreNotMistakenForEachOther) {
  for (int i = 0; i < 3; ++i) {
    const std::string text = "extern \"C\" int answer() { return " + std::to_string(i) + "; }";
    const auto object = LoadedObject::load(test_toolchain().build(text).value()).value();
    EXPECT_EQ(reinterpret_cast<int (*)()>(object->symbol("answer"))(), i);
  }
}

TEST_F(ToolchainTest, BytesThatAreNoObject_AreEnvironment) {
  const Bytes bytes(100, std::byte{7});
  const auto loaded = LoadedObject::load(bytes);
  ASSERT_FALSE(loaded.has_value());
  EXPECT_EQ(loaded.error().code, Code::Environment);
  // Ranks that fail alike say the same, whatever the descriptor was.
  EXPECT_EQ(loaded.error().message.find("/proc/"), std::string::npos) << loaded.error().message;
}

}  // namespace
}  // namespace lockstep::worker::toolchain_test
