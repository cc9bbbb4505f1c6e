// Programs on a device, emulated on this processor: what they do with memory, with what the host
// has to know, and with everything that can fail. That every op is right is seen in
// cuda_text_test.cpp.
#include <algorithm>
#include <cstring>

#include "compiled_graph.h"
#include "emulated_device.h"
#include "graph_builder.h"
#include "op_graphs.h"
#include "thread_group.h"
#include <gtest/gtest.h>

#include <lockstep/worker/codegen.h>
#include <lockstep/worker/cuda_device.h>
#include <lockstep/worker/device_program.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;

struct Loaded {
  EmulatedDevice device;
  std::unique_ptr<DeviceProgram> program;

  explicit Loaded(Graph graph) {
    auto built = build_emulated(generate(std::move(graph), Target::Cuda).value());
    EXPECT_TRUE(built.has_value()) << built.error().text();
    program = DeviceProgram::load(std::move(built->program), built->units, device).value();
  }
  Result<std::vector<Array>> run(const Inputs& inputs) {
    return run_on_device(*program, device, inputs);
  }
  Result<std::vector<DeviceArray>> run_resident(const Inputs& inputs) {
    std::optional<Result<std::vector<DeviceArray>>> out;
    run_alone([&](auto&, RunHost& host) { out = program->run(inputs, host); });
    return *std::move(out);
  }
  /// As the interpreter: outputs, or the same error.
  void expect_agreement(const Inputs& inputs) {
    const auto expected = run_interpreted(program->program().graph, inputs);
    const auto got = run(inputs);
    ASSERT_EQ(got.has_value(), expected.has_value()) << (got ? expected : got).error().text();
    if (got)
      EXPECT_TRUE(same(*got, *expected, 1e-9));
    else
      EXPECT_EQ(got.error(), expected.error());
    EXPECT_EQ(device.live_bytes(), 0U);
  }
};

/// Sums of sums: every value is stored, and read by the next one only.
Graph chain_graph(int length) {
  GraphBuilder g("chain");
  NodeId x = g.input("x", DType::F64, {g.symbol("x.size(0)")});
  for (int k = 0; k < length; ++k) {
    g.line(10 + static_cast<std::uint32_t>(k));
    x = g.op(Op::Cumsum, {x});
  }
  g.output(x);
  return g.take();
}

/// Sizes that the data give, an assert over them, and a gather that they allow.
Graph read_graph() {
  GraphBuilder g("read");
  const Expr n = g.symbol("x.size(0)");
  const NodeId x = g.input("x", DType::F64, {n}), counts = g.input("counts", DType::I64, {Expr(2)});
  const NodeId rows = g.input("rows", DType::I64, {g.symbol("rows.size(0)")});
  const auto read = g.read(Op::ToList, g.op(Op::Add, {counts, counts}));
  g.line(41);
  for (const Expr& size : read) g.check(shapes::greater_equal(size, 0));
  g.check(shapes::less_equal(read[0] + read[1], n), "there are so many rows");
  const NodeId last = g.slice(x, 0, read[0], read[1]);
  g.output(g.op(Op::Cumsum, {last}));
  g.output(g.op(Op::IndexSelect, {last, rows}));
  const auto total = g.read(Op::Item, g.reduce(Op::Sum, rows, {0}));
  g.check(shapes::greater_equal(total[0], 0));
  g.output(g.full(DType::F64, {total[0]}, 2.5));
  g.output(x);
  g.output(rows);
  return g.take();
}

Inputs read_inputs(std::int64_t n, std::vector<std::int64_t> counts,
                   std::vector<std::int64_t> rows) {
  std::mt19937_64 random(3);
  Inputs inputs;
  inputs["x"] = random_array(random, DType::F64, {n});
  inputs["counts"] = integers({2}, std::move(counts));
  const auto length = static_cast<std::int64_t>(rows.size());
  inputs["rows"] = integers({length}, std::move(rows));
  return inputs;
}

/// Bytes as they are in every input.
std::vector<std::vector<std::byte>> bytes_of(const Inputs& inputs) {
  std::vector<std::vector<std::byte>> out;
  for (const auto& [name, array] : inputs) {
    const auto* data = static_cast<const std::byte*>(array.data());
    out.emplace_back(data, data + array.bytes());
  }
  return out;
}

/// One sentence, or several clauses, without an end of its own.
bool is_one_sentence(const std::string& text) {
  return !text.empty() && text.find('\n') == std::string::npos && text.back() != '.' &&
         text.find(". ") == std::string::npos;
}

TEST(DeviceProgram, WhatTheHostReads_ComesInItsPlace) {
  Loaded loaded(read_graph());
  loaded.expect_agreement(read_inputs(9, {1, 2}, {3, 0, 1}));
  loaded.expect_agreement(read_inputs(0, {0, 0}, {}));
  loaded.expect_agreement(read_inputs(1001, {100, 400}, {799, 0}));
}

TEST(DeviceProgram, WrongValues_AreTheInterpretersErrors) {
  Loaded loaded(read_graph());
  loaded.expect_agreement(read_inputs(9, {1, 2}, {3, 4, 1}));   // index outside
  loaded.expect_agreement(read_inputs(9, {1, 2}, {3, -1, 1}));  // negative index
  loaded.expect_agreement(read_inputs(9, {3, 2}, {0}));         // fails the assert
  loaded.expect_agreement(read_inputs(9, {-1, 2}, {0}));
  Inputs inputs = read_inputs(9, {1, 2}, {0});
  inputs["counts"] = integers({3}, {1, 2, 3});  // not this entry's sizes
  loaded.expect_agreement(inputs);
  inputs.erase("x");
  loaded.expect_agreement(inputs);
}

TEST(DeviceProgram, MemoryOfAValue_ServesTheNext) {
  Loaded loaded(chain_graph(12));
  Inputs inputs;
  inputs["x"] = Array::zeros(DType::F64, {256});  // 2048 bytes
  loaded.expect_agreement(inputs);
  EXPECT_EQ(loaded.program->peak_bytes(), 2 * 2048U);
}

TEST(DeviceProgram, Outputs_BelongToTheCaller) {
  Loaded loaded(read_graph());
  const Inputs inputs = read_inputs(100, {10, 20}, {3, 0, 1});
  const auto before = bytes_of(inputs);
  auto first = loaded.run_resident(inputs);
  ASSERT_TRUE(first.has_value()) << first.error().text();
  // 40 sums, 3 picked, 4 numbers, x of 100 and rows of 3, in blocks of 512.
  EXPECT_EQ(loaded.device.live_bytes(), 512U + 512 + 512 + 1024 + 512);
  EXPECT_EQ((*first)[3].sizes, std::vector<std::int64_t>{100});
  const auto second = loaded.run(inputs);
  ASSERT_TRUE(second.has_value());
  for (std::size_t k = 0; k < first->size(); ++k) {
    const Array array = to_host((*first)[k], loaded.device).value();
    EXPECT_EQ(std::memcmp(array.data(), (*second)[k].data(), array.bytes()), 0) << k;
  }
  EXPECT_EQ(bytes_of(inputs), before);
  *first = {};
  EXPECT_EQ(loaded.device.live_bytes(), 0U);
}

TEST(DeviceProgram, AnyCallThatFails_FailsTheRunAndFreesAll) {
  Loaded loaded(read_graph());
  const Inputs inputs = read_inputs(100, {10, 20}, {3, 0, 1});
  const auto before = bytes_of(inputs);
  const int start = loaded.device.calls();
  ASSERT_TRUE(loaded.run_resident(inputs).has_value());
  const int calls = loaded.device.calls() - start;
  ASSERT_GT(calls, 10);
  for (int n = 0; n < calls; ++n) {
    loaded.device.fail_call(n);
    const auto got = loaded.run_resident(inputs);
    ASSERT_TRUE(got.has_error()) << n;
    EXPECT_EQ(got.error().code, Code::Environment);
    EXPECT_TRUE(
        got.error().message.ends_with(" failed on rank 1's emulated device: as it was told to"))
        << got.error().message;
    EXPECT_TRUE(is_one_sentence(got.error().message));
    EXPECT_EQ(loaded.device.live_bytes(), 0U) << n;
  }
  EXPECT_EQ(bytes_of(inputs), before);
  loaded.expect_agreement(inputs);
}

TEST(DeviceProgram, LittleMemory_IsEnoughOrAnExplainedError) {
  Loaded loaded(chain_graph(5));
  Inputs inputs;
  inputs["x"] = Array::zeros(DType::F64, {256});
  for (std::size_t capacity = 0; capacity < 4096; capacity += 512) {
    loaded.device.set_capacity(capacity);
    const auto got = loaded.run(inputs);
    ASSERT_TRUE(got.has_error()) << capacity;
    EXPECT_EQ(got.error().code, Code::Environment);
    EXPECT_TRUE(is_one_sentence(got.error().message));
    EXPECT_EQ(got.error().message,
              std::string("rank 1's emulated device has no memory for the 2048 bytes of ") +
                  (capacity < 2048 ? "input at model.cpp:1" : "cumsum at model.cpp:10") +
                  " in a run of frame chain, which uses " + (capacity < 2048 ? "0" : "2048") +
                  " bytes there and has given back those it kept; use smaller batches");
    EXPECT_EQ(loaded.device.live_bytes(), 0U);
  }
  loaded.device.set_capacity(4096);
  loaded.expect_agreement(inputs);
}

TEST(DeviceProgram, StepsWithoutAKernel_AreRefusedBeforeAnythingIsLoaded) {
  EmulatedDevice device;
  GraphBuilder g("model");
  const Expr n = g.symbol("x.size(0)");
  const NodeId x = g.input("x", DType::F64, {n, n});
  g.line(7);
  g.output(g.op(Op::Matmul, {x, x}));
  const auto product = DeviceProgram::load(generate(g.take(), Target::Cuda).value(), {}, device);
  ASSERT_TRUE(product.has_error());
  EXPECT_EQ(product.error().code, Code::BadInput);
  EXPECT_EQ(product.error().message,
            "frame model cannot run on rank 1's emulated device: matmul at model.cpp:7 has no "
            "kernel for devices yet; run it on the host");
  GraphBuilder h("model");
  const NodeId y = h.input("y", DType::F64, {Expr(4)});
  h.output(h.collective(Op::AllReduce, y, 0));
  const auto joint = DeviceProgram::load(generate(h.take(), Target::Cuda).value(), {}, device);
  ASSERT_TRUE(joint.has_error());
  EXPECT_NE(joint.error().message.find("all_reduce at model.cpp:1 has no kernel"),
            std::string::npos)
      << joint.error().message;
  for (DType dtype : {DType::F32, DType::F64})
    EXPECT_TRUE(DeviceProgram::load(
                    generate(product_graph(dtype, std::nullopt), Target::Cuda).value(), {}, device)
                    .has_error());
  EXPECT_EQ(device.calls(), 0);
}

TEST(DeviceProgram, LoadThatFails_UnloadsWhatItHas) {
  const auto built = build_emulated(generate(chain_graph(2), Target::Cuda).value()).value();
  EmulatedDevice device;
  for (int n = 0; n < 1 + static_cast<int>(built.program.kernels.size()); ++n) {
    device.fail_call(n);
    EXPECT_TRUE(DeviceProgram::load(built.program, built.units, device).has_error());
    EXPECT_EQ(device.modules(), 0U);
  }
}

TEST(CudaDevice, NoSuchDevice_SaysWhatIsMissing) {
  const auto opened = open_cuda_device({.ordinal = 99, .rank = Rank{3}});
  ASSERT_TRUE(opened.has_error());
  EXPECT_EQ(opened.error().code, Code::Environment);
  EXPECT_TRUE(is_one_sentence(opened.error().message));
  for (const char* part : {"rank 3", "CUDA device 99"})
    EXPECT_NE(opened.error().message.find(part), std::string::npos) << opened.error().message;
}

}  // namespace
}  // namespace lockstep::worker
