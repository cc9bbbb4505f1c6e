// What steps take on a device, what they hold of its memory, and how a dry run says it.
#include <random>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <lockstep/worker/simulator/cluster/cost_report.h>
#include <lockstep/worker/simulator/cluster/dry_run.h>
#include <lockstep/worker/simulator/report/time_trace.h>

namespace lockstep::worker::simulator::device_cost_test {
namespace {

/// 2 GB/s, 3 and 50 operations a nanosecond in f32 and bf16, launches of 2 us, 10,000 bytes.
DeviceModel small_device() {
  return {.name = "small",
          .bytes_per_us = 2'000,
          .flops_per_us = {0, 3'000, 0, 50'000},
          .launch_ns = 2'000,
          .memory_bytes = 10'000};
}

TEST(DeviceModel, AKernel_TakesTheLongestOfLaunchMemoryAndArithmetic) {
  const DeviceModel device = small_device();
  EXPECT_EQ(kernels_ns({.bytes = {100, 0}, .flops = {100, 0}}, device, 0), 2'000);
  EXPECT_EQ(kernels_ns({.bytes = {10'000, 0}, .flops = {100, 0}}, device, 0), 5'000);
  EXPECT_EQ(kernels_ns({.bytes = {10'000, 0}, .flops = {30'000, 0}}, device, 0), 10'000);
  const KernelWork half{.bytes = {10'000, 0}, .flops = {30'000, 0}, .precision = Precision::BF16};
  EXPECT_EQ(kernels_ns(half, device, 0), 5'000);
}

TEST(DeviceModel, Kernels_GrowWithCountAndElements) {
  const DeviceModel device = small_device();
  const KernelWork work{.count = 7, .bytes = {1'000, 20}, .flops = {}};
  EXPECT_EQ(kernels_ns(work, device, 0), 7 * 2'000);
  EXPECT_EQ(kernels_ns(work, device, 500), 7 * 5'500);
}

TEST(DeviceModel, HugeWork_IsCapped) {
  const KernelWork work{.count = 1'000'000, .bytes = {}, .flops = {INT64_MAX, INT64_MAX}};
  EXPECT_EQ(kernels_ns(work, small_device(), INT64_MAX), kLongest);
  EXPECT_EQ((Amount{5, 3}).of(INT64_MAX), INT64_MAX);
}

TEST(DeviceModel, Presets_AreNinetyPercentOfMemoryAndSeventyOfArithmetic) {
  const auto h100 = device_preset("h100");
  ASSERT_TRUE(h100);
  EXPECT_EQ(h100->bytes_per_us, 3'015'000);
  EXPECT_EQ(h100->rate_of(Precision::F64), 23'800'000);
  EXPECT_EQ(h100->rate_of(Precision::F32), 46'900'000);
  EXPECT_EQ(h100->rate_of(Precision::BF16), 692'300'000);
  EXPECT_EQ(h100->memory_bytes, 80'000'000'000);
  EXPECT_EQ(device_preset("a100")->rate_of(Precision::F64), 6'790'000);
  EXPECT_EQ(device_preset("h200")->bytes_per_us, 4'320'000);
  for (const auto name : device_names()) EXPECT_TRUE(device_preset(name)) << name;
  EXPECT_FALSE(device_preset("h1000"));
}

constexpr const char* kSmall =
    R"("device": {"memory_gbps": 2, "memory_gb": 0.001, "launch_us": 2, "tflops": {"f32": 0.003}})";

Result<Scenario> parse(const std::string& cost, int ranks = 2) {
  return parse_scenario(
      R"({"format": "lockstep.scenario/1", "world_size": )" + std::to_string(ranks) +
          R"(, "calls": [{"frame": "f", "inputs": [{"ranks": "0", "values": {"x": {"tensor": )"
          R"([10]}}}, {"ranks": "1", "values": {"x": {"tensor": [900]}}}]}], "cost": )"
          R"({"network": {"alpha_us": 1, "beta_gbps": 1}, "compile": {})" +
          cost + "}}",
      "test");
}

DryRunResult run(const std::string& cost) {
  const auto scenario = parse(cost);
  if (!scenario) throw std::runtime_error(scenario.error().message);
  return dry_run(*scenario, {.counterfactual = false, .most_spans = 1000});
}

TEST(DeviceCost, AStep_IsItsConstantItsElementsAndItsKernels) {
  const auto result = run(std::string(", ") + kSmall +
                          R"(, "step": {"constant_us": 5, "per_element_ns": 1, "kernels": )"
                          R"([{"count": 3, "bytes_per_element": 20}, {"flops": 9000}]})");
  // Rank 0: 10 elements, kernels of 2 us and one of 3 us. Rank 1: 900, kernels of 9 us.
  EXPECT_EQ(
      result.timing->ranks.step_ns,
      (std::vector<std::int64_t>{5'000 + 10 + 3 * 2'000 + 3'000, 5'000 + 900 + 3 * 9'000 + 3'000}));
  EXPECT_EQ(result.timing->calls[0].data_ns, 0);
}

TEST(DeviceCost, DataCollectives_GoOverTheirOwnNetwork) {
  const std::string step = R"(, "step": {"collectives": [{"all_reduce": 8000}]})";
  const std::string data =
      R"(, "data_network": {"ranks_per_host": 2, "within": {"alpha_us": 2, "beta_gbps": 4}})";
  const auto control = run(step), apart = run(data + step);
  EXPECT_EQ(control.timing->calls[0].step_ns, 1000 + 8000);
  EXPECT_EQ(apart.timing->calls[0].step_ns, 2 * (2000 + 1000));
  EXPECT_EQ(apart.timing->calls[0].data_ns, 2 * (2000 + 1000));
  EXPECT_EQ(apart.timing->calls[0].agreement_ns, control.timing->calls[0].agreement_ns);
  // A collective on a device is a launch, too, unless its bytes go through the host.
  const auto device = run(std::string(", ") + kSmall + data + step);
  EXPECT_EQ(device.timing->calls[0].data_ns, 2 * (2000 + 1000) + 2000);
  const std::string staged =
      R"(, "data_network": {"between": "tcp", "staging": {"alpha_us": 0, "beta_gbps": 8}})";
  const auto host = run(std::string(", ") + kSmall + staged + step);
  EXPECT_EQ(host.timing->calls[0].data_ns, 2 * (25'000 + 3'200) + 2 * 1000);
}

TEST(DeviceCost, TheGeneratorsHosts_AreTheDevicesHosts) {
  const auto read = [](const std::string& hosts, const std::string& data) {
    return parse_scenario(R"({"format": "lockstep.scenario/1", "world_size": 16, "generator": {)" +
                              hosts + R"("calls": [{"frame": "f", "values": {}}]}, "cost": )" +
                              R"({"network": "tcp", "data_network": )" + data + "}}",
                          "test");
  };
  const std::string links = R"({"within": "nvlink4", "between": "infiniband_ndr"})";
  EXPECT_EQ(read(R"("ranks_per_host": 4, )", links)->cost->data_network->ranks_per_host, 4);
  EXPECT_EQ(read("", links)->cost->data_network->ranks_per_host, 1);
  EXPECT_EQ(read("", R"("dgx_h100")")->cost->data_network->ranks_per_host, 8);
  EXPECT_EQ(read(R"("ranks_per_host": 4, )", R"("dgx_h100")")->cost->data_network->ranks_per_host,
            4);
  const auto crowded = read(R"("ranks_per_host": 16, )", R"("dgx_h100")");
  ASSERT_FALSE(crowded);
  EXPECT_NE(crowded.error().message.find("has 8 devices a host, and the generator 16 ranks"),
            std::string::npos);
}

TEST(DeviceCost, WhatIsHeldOfMemory_IsSaidWithItsRankAndWhetherItFits) {
  const auto result = run(std::string(", ") + kSmall +
                          R"(, "step": {"memory": {"bytes": 100000, "bytes_per_element": 1001}})");
  ASSERT_TRUE(result.timing->calls[0].memory);
  EXPECT_EQ(*result.timing->calls[0].memory, (MemoryPeak{1'000'900, 1}));
  const auto cost = nlohmann::json::parse(result_json(result))["cost"];
  EXPECT_EQ(cost["totals"]["memory"],
            nlohmann::json({{"bytes", 1'000'900}, {"rank", 1}, {"call", 0}}));
  EXPECT_EQ(cost["totals"]["calls_beyond_memory"], 1);
  EXPECT_EQ(cost["calls"][0]["memory"]["rank"], 1);
  EXPECT_NE(cost_summary(result).find("on rank 1 in call 0"), std::string::npos);
  EXPECT_NE(cost_summary(result).find("calls that need more: 1"), std::string::npos);
  EXPECT_NE(calls_csv(result).find(",memory_bytes,memory_rank\r\n"), std::string::npos);
  EXPECT_NE(calls_csv(result).find(",1000900,1\r\n"), std::string::npos);
}

TEST(DeviceCost, WithDevices_EveryKindOfOutputSaysTheirShare) {
  const auto result = run(R"(, "device": "h100", "data_network": "dgx_h100", )"
                          R"("step": {"kernels": [{}], "collectives": [{"all_to_all": 800}]})");
  const auto cost = nlohmann::json::parse(result_json(result))["cost"];
  EXPECT_EQ(cost["device"]["flops_per_us"]["bf16"], 692'300'000);
  EXPECT_EQ(cost["data_network"]["ranks_per_host"], 8);
  // One message of 400 bytes over NVLink, and a launch.
  const std::int64_t data = 1'900 + 2 + 2'500;
  EXPECT_EQ(cost["totals"]["data_ns"], data);
  EXPECT_EQ(cost["frames"]["f"]["data_ns"]["max"], data);
  EXPECT_EQ(cost["calls"][0]["data_ns"], data);
  EXPECT_EQ(cost["calls"][0]["step_ns"], data + 2'500);
  EXPECT_FALSE(cost["totals"].contains("memory"));
  EXPECT_NE(calls_csv(result).find(",last_rank,data_ns\r\n"), std::string::npos);
  EXPECT_NE(cost_summary(result).find("in collectives over dgx_h100, 8 ranks a host"),
            std::string::npos);
  EXPECT_NE(time_trace(result).find(R"("cat": "data")"), std::string::npos);
}

TEST(DeviceCost, Faults_CountTheKernelsOfAStep) {
  const auto faulty = [](const std::string& step) {
    const auto scenario = parse_scenario(
        R"({"format": "lockstep.scenario/1", "world_size": 2, "generator": {"calls": [{"frame": )"
        R"("f", "repeat": 10, "values": {}}]}, "cost": {"network": "tcp", "device": "h100")" +
            step + R"(}, "faults": {"list": [{"fault": "slow", "ranks": "0", "delay_s": 1}]}})",
        "test");
    if (!scenario) throw std::runtime_error(scenario.error().message);
    return result_json(dry_run(*scenario, {.counterfactual = false}));
  };
  const auto ends = [](const std::string& text) {
    return nlohmann::json::parse(text)["faults"]["without_ns"].dump();
  };
  EXPECT_EQ(ends(faulty(R"(, "step": {"constant_us": 250})")),
            ends(faulty(R"(, "step": {"kernels": [{"count": 100}]})")));
  EXPECT_NE(ends(faulty("")), ends(faulty(R"(, "step": {"kernels": [{"count": 100}]})")));
}

TEST(DeviceReader, WhatIsWrong_IsNamedByItsPath) {
  const std::pair<std::string, std::string> cases[] = {
      {R"("device": "h1000")", "cost.device: \"h1000\" is not one of a100"},
      {R"("device": {})", "cost.device.memory_gbps: this key is missing"},
      {R"("device": {"memory_gbps": 1, "tflops": {"f8": 1}})", "cost.device.tflops.f8"},
      {R"("device": {"memory_gbps": 1, "tflops": {"f64": 0}})", "cost.device.tflops.f64"},
      {R"("step": {"kernels": []})", "cost.step.kernels: this needs the key device"},
      {R"("step": {"memory": {}})", "cost.step.memory: this needs the key device"},
      {R"("device": "h100", "step": {"kernels": [{"count": 0}]})", "cost.step.kernels[0].count"},
      {R"("device": "h100", "step": {"kernels": [{"dtype": "i64"}]})",
       "cost.step.kernels[0].dtype"},
      {R"("device": {"memory_gbps": 1}, "step": {"kernels": [{"flops": 1}]})",
       "cost.step.kernels[0]: the device has no tflops of f32"},
      {R"("device": "h100", "step": {"memory": {"bytes": -1}})", "cost.step.memory.bytes"},
      {R"("data_network": "token-ring")", "cost.data_network: \"token-ring\" is not one of"},
      {R"("data_network": {})", "cost.data_network: 2 ranks are on hosts of 1, and between"},
      {R"("data_network": {"ranks_per_host": 2})",
       "cost.data_network: 2 ranks share a host, and within"},
      {R"("data_network": {"between": "nvlink9"})", "cost.data_network.between: \"nvlink9\""},
      {R"("data_network": {"between": {"alpha_us": 1}})", "cost.data_network.between.beta_gbps"},
      {R"("data_network": {"between": "tcp", "staging": 5})", "cost.data_network.staging"},
  };
  for (const auto& [cost, message] : cases) {
    const auto scenario = parse(", " + cost);
    ASSERT_FALSE(scenario) << cost;
    const std::string said = scenario.error().message;
    EXPECT_NE(said.find(message), std::string::npos) << cost << ": " << said;
    EXPECT_TRUE(said.ends_with(".")) << said;
  }
}

}  // namespace
}  // namespace lockstep::worker::simulator::device_cost_test
