#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include <lockstep/worker/simulator/draw/json_document.h>
#include <lockstep/worker/simulator/input/scenario.h>

namespace lockstep::worker::simulator::scenario_test {
namespace {

/// A valid scenario of 4 ranks around one call's text, and around one value's text.
std::string with_calls(const std::string& calls) {
  return R"({"format": "lockstep.scenario/1", "world_size": 4, "calls": [)" + calls + "]}";
}
std::string with_inputs(const std::string& inputs) {
  return with_calls(R"({"frame": "f", "inputs": [)" + inputs + "]}");
}
std::string with_ranks(const std::string& ranks) {
  return with_inputs(R"({"ranks": ")" + ranks + R"(", "values": {}})");
}
std::string with_fields(const std::string& fields) {
  return with_inputs(R"({"ranks": "0", "values": {"x": {"int": 1}}, "fields": )" + fields + "}");
}
std::string with_field(const std::string& field) { return with_fields(R"({"f": )" + field + "}"); }
std::string with_value(const std::string& value) {
  return with_inputs(R"({"ranks": "0-3", "values": {"x": )" + value + "}}");
}
std::string with_config(const std::string& config) {
  return R"({"format": "lockstep.scenario/1", "world_size": 4, "config": )" + config +
         R"(, "calls": []})";
}

struct Bad {
  const char* name;
  std::string text;
  const char* path;  // "" for the whole document
  const char* says;  // part of the sentence
};

void PrintTo(const Bad& bad, std::ostream* out) { *out << bad.name; }

class ScenarioError : public testing::TestWithParam<Bad> {};

TEST_P(ScenarioError, MalformedText_IsOneSentenceWithFileAndPath) {
  const Bad& bad = GetParam();
  const auto result = parse_scenario(bad.text, "job.json");
  ASSERT_FALSE(result.has_value());
  const std::string& message = result.error().message;
  EXPECT_EQ(result.error().code, Code::BadInput);
  const std::string start = std::string("job.json: ") + bad.path + (*bad.path != 0 ? ": " : "");
  EXPECT_TRUE(message.starts_with(start)) << message;
  EXPECT_NE(message.find(bad.says), std::string::npos) << message;
  EXPECT_TRUE(message.ends_with(".")) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

const std::string kGroup = R"({"ranks": "0", "values": {}})";

const Bad kBad[] = {
    {"Empty", "", "", "empty"},
    {"Blank", " \n", "", "empty"},
    {"NotJson", "hello", "", "not JSON"},
    {"Truncated", R"({"format": "lockstep.scenario/1", "world_size": 4, "calls": [{"frame": )",
     "calls[0].frame", "not JSON"},
    {"TrailingGarbage", with_calls("") + "x", "", "not JSON"},
    {"TwoDocuments", with_calls("") + with_calls(""), "", "not JSON"},
    {"TrailingNul", with_calls("") + std::string(1, '\0'), "", "NUL"},
    {"TrailingComma", with_calls("{\"frame\": \"f\", \"inputs\": []},"), "calls[1]", "not JSON"},
    {"Comment", "/* c */" + with_calls(""), "", "not JSON"},
    {"ByteOrderMark", "\xEF\xBB\xBF" + with_calls(""), "", "byte order mark"},
    {"InvalidUtf8", with_inputs("{\"ranks\": \"0\", \"values\": {\"\xff\": {\"int\": 1}}}"),
     "calls[0].inputs[0].values", "not JSON"},
    {"OverlongUtf8", with_calls("{\"frame\": \"\xC0\x80\", \"inputs\": []}"), "calls[0].frame",
     "not JSON"},
    {"LoneSurrogate", with_calls(R"({"frame": "\ud800", "inputs": []})"), "calls[0].frame",
     "not JSON"},
    {"RawNewlineInString", with_calls("{\"frame\": \"a\nb\", \"inputs\": []}"), "calls[0].frame",
     "not JSON"},
    {"TooDeep", with_value(std::string(100, '[') + std::string(100, ']')),
     "calls[0].inputs[0].values.x[0][0][0][0][0][0]…", "deeper than 64"},
    {"RootList", "[]", "", "expected an object, found a list"},
    {"RootNull", "null", "", "expected an object, found null"},
    {"NoFormat", R"({"world_size": 4, "calls": []})", "format", "missing"},
    {"OtherFormat", R"({"format": "lockstep.scenario/2", "world_size": 4, "calls": []})", "format",
     "lockstep.scenario/1"},
    {"FormatNumber", R"({"format": 1, "world_size": 4, "calls": []})", "format", "a string"},
    {"UnknownTop", R"({"format": "lockstep.scenario/1", "world_size": 4, "calls": [], "extra": 1})",
     "extra", "unknown key"},
    {"DuplicateTop",
     R"({"format": "lockstep.scenario/1", "world_size": 4, "world_size": 4, "calls": []})",
     "world_size", "twice"},
    {"DuplicateEscaped", with_inputs(R"({"ranks": "0", "r\u0061nks": "1", "values": {}})"),
     "calls[0].inputs[0].ranks", "twice"},
    {"NoWorld", R"({"format": "lockstep.scenario/1", "calls": []})", "world_size", "missing"},
    {"WorldZero", R"({"format": "lockstep.scenario/1", "world_size": 0, "calls": []})",
     "world_size", "out of range"},
    {"WorldTooLarge", R"({"format": "lockstep.scenario/1", "world_size": 16777217, "calls": []})",
     "world_size", "out of range"},
    {"WorldReal", R"({"format": "lockstep.scenario/1", "world_size": 4.0, "calls": []})",
     "world_size", "expected an integer"},
    {"WorldString", R"({"format": "lockstep.scenario/1", "world_size": "4", "calls": []})",
     "world_size", "expected an integer"},
    {"WorldBool", R"({"format": "lockstep.scenario/1", "world_size": true, "calls": []})",
     "world_size", "expected an integer"},
    {"NoCalls", R"({"format": "lockstep.scenario/1", "world_size": 4})", "calls", "missing"},
    {"CallsObject", R"({"format": "lockstep.scenario/1", "world_size": 4, "calls": {}})", "calls",
     "a list"},
    {"CallNull", with_calls("null"), "calls[0]", "expected an object, found null"},
    {"ConfigNull", with_config("null"), "config", "an object"},
    {"ConfigUnknown", with_config(R"({"limit": 8})"), "config.limit", "unknown key"},
    {"ConfigLocal", with_config(R"({"consistency": "local"})"), "config.consistency", "same_graph"},
    {"ConfigBoolNumber", with_config(R"({"automatic_dynamic": 1})"), "config.automatic_dynamic",
     "true or false"},
    {"ConfigLimitZero", with_config(R"({"recompile_limit": 0})"), "config.recompile_limit",
     "out of range"},
    {"ConfigLimit65", with_config(R"({"recompile_limit": 65})"), "config.recompile_limit",
     "out of range"},
    {"ConfigSettle", with_config(R"({"settle": 1})"), "config.settle", "true or false"},
    {"ConfigDuplicate", with_config(R"({"recompile_limit": 5, "recompile_limit": 5})"),
     "config.recompile_limit", "twice"},
    {"CallUnknown", with_calls(R"({"frame": "f", "inputs": [], "name": 1})"), "calls[0].name",
     "unknown key"},
    {"FrameNumber", with_calls(R"({"frame": 1, "inputs": []})"), "calls[0].frame", "a string"},
    {"FrameNull", with_calls(R"({"frame": null, "inputs": []})"), "calls[0].frame", "a string"},
    {"FrameMissing", with_calls(R"({"inputs": [)" + kGroup + "]}"), "calls[0].inputs[0].frame",
     "missing"},
    {"InputsMissing", with_calls(R"({"frame": "f"})"), "calls[0].inputs", "missing"},
    {"GroupString", with_inputs("\"x\""), "calls[0].inputs[0]", "an object"},
    {"GroupUnknown", with_inputs(R"({"ranks": "0", "values": {}, "rank": 1})"),
     "calls[0].inputs[0].rank", "unknown key"},
    {"RanksMissing", with_inputs(R"({"values": {}})"), "calls[0].inputs[0].ranks", "missing"},
    {"RanksNumber", with_inputs(R"({"ranks": 0, "values": {}})"), "calls[0].inputs[0].ranks",
     "a string"},
    {"ValuesMissing", with_inputs(R"({"ranks": "0"})"), "calls[0].inputs[0].values", "missing"},
    {"ValuesList", with_inputs(R"({"ranks": "0", "values": []})"), "calls[0].inputs[0].values",
     "an object"},
    {"RanksEmpty", with_ranks(""), "calls[0].inputs[0].ranks", "decimal"},
    {"RanksSpace", with_ranks("0, 1"), "calls[0].inputs[0].ranks", "without spaces"},
    {"RanksLeadingZero", with_ranks("01"), "calls[0].inputs[0].ranks", "leading zero"},
    {"RanksDoubleZero", with_ranks("00"), "calls[0].inputs[0].ranks", "leading zero"},
    {"RanksTrailingComma", with_ranks("0,"), "calls[0].inputs[0].ranks", "decimal"},
    {"RanksNegative", with_ranks("-1"), "calls[0].inputs[0].ranks", "decimal"},
    {"RanksPlus", with_ranks("+1"), "calls[0].inputs[0].ranks", "decimal"},
    {"RanksOpen", with_ranks("1-"), "calls[0].inputs[0].ranks", "decimal"},
    {"RanksThree", with_ranks("0-1-2"), "calls[0].inputs[0].ranks", "not understood"},
    {"RanksEqual", with_ranks("1-1"), "calls[0].inputs[0].ranks", "no range"},
    {"RanksReversed", with_ranks("2-1"), "calls[0].inputs[0].ranks", "no range"},
    {"RanksTwice", with_ranks("1,0-2"), "calls[0].inputs[0].ranks", "rank 1 occurs twice"},
    {"RanksOutside", with_ranks("4"), "calls[0].inputs[0].ranks", "outside the world"},
    {"RanksRangeOutside", with_ranks("0-4"), "calls[0].inputs[0].ranks", "outside the world"},
    {"RanksHuge", with_ranks("99999999999999999999999999"), "calls[0].inputs[0].ranks",
     "outside the world"},
    {"RanksOverlap", with_inputs(kGroup + R"(, {"ranks": "0-1", "values": {}})"),
     "calls[0].inputs[1].ranks", "rank 0"},
    {"EmptySource", with_inputs(R"({"ranks": "0", "values": {"": {"int": 1}}})"),
     "calls[0].inputs[0].values[\"\"]", "empty name"},
    {"DuplicateSource",
     with_inputs(R"({"ranks": "0", "values": {"a": {"int": 1}, "a": {"int": 1}}})"),
     "calls[0].inputs[0].values.a", "twice"},
    {"ValueNull", with_value("null"), "calls[0].inputs[0].values.x", "an object"},
    {"ValueEmpty", with_value("{}"), "calls[0].inputs[0].values.x", "has none"},
    {"ValueTwoKinds", with_value(R"({"int": 1, "float": 1})"), "calls[0].inputs[0].values.x",
     "int and float"},
    {"ValueUnknown", with_value(R"({"int": 1, "dtype": "i64"})"),
     "calls[0].inputs[0].values.x.dtype", "unknown key"},
    {"ValueOtherKind", with_value(R"({"string": "a"})"), "calls[0].inputs[0].values.x.string",
     "unknown key"},
    {"IntReal", with_value(R"({"int": 4.0})"), "calls[0].inputs[0].values.x.int",
     "expected an integer"},
    {"IntExponent", with_value(R"({"int": 1e3})"), "calls[0].inputs[0].values.x.int",
     "expected an integer"},
    {"IntTooLarge", with_value(R"({"int": 9223372036854775808})"),
     "calls[0].inputs[0].values.x.int", "64 bits"},
    {"IntTooSmall", with_value(R"({"int": -9223372036854775809})"),
     "calls[0].inputs[0].values.x.int", "64 bits"},
    {"IntBool", with_value(R"({"int": true})"), "calls[0].inputs[0].values.x.int",
     "expected an integer"},
    {"IntNull", with_value(R"({"int": null})"), "calls[0].inputs[0].values.x.int", "found null"},
    {"FloatString", with_value(R"({"float": "1"})"), "calls[0].inputs[0].values.x.float",
     "a number"},
    {"FloatInfinite", with_value(R"({"float": 1e999})"), "calls[0].inputs[0].values.x.float",
     "not JSON"},
    {"FloatNan", with_value(R"({"float": NaN})"), "calls[0].inputs[0].values.x.float", "not JSON"},
    {"BoolNumber", with_value(R"({"bool": 1})"), "calls[0].inputs[0].values.x.bool",
     "true or false"},
    {"SizesNumber", with_value(R"({"tensor": 5})"), "calls[0].inputs[0].values.x.tensor", "a list"},
    {"SizeNegative", with_value(R"({"tensor": [5, -1]})"), "calls[0].inputs[0].values.x.tensor[1]",
     "too small"},
    {"SizeReal", with_value(R"({"tensor": [5.0]})"), "calls[0].inputs[0].values.x.tensor[0]",
     "expected an integer"},
    {"SizeHuge", with_value(R"({"tensor": [9223372036854775808]})"),
     "calls[0].inputs[0].values.x.tensor[0]", "64 bits"},
    {"Dims17", with_value(R"({"tensor": [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]})"),
     "calls[0].inputs[0].values.x.tensor", "at most 16"},
    {"DtypeUnknown", with_value(R"({"tensor": [], "dtype": "f128"})"),
     "calls[0].inputs[0].values.x.dtype", "not one of"},
    {"DtypeNull", with_value(R"({"tensor": [], "dtype": null})"),
     "calls[0].inputs[0].values.x.dtype", "a string"},
    {"StridesFew", with_value(R"({"tensor": [2, 3], "strides": [1]})"),
     "calls[0].inputs[0].values.x.strides", "1 strides for 2 dims"},
    {"StrideNegative", with_value(R"({"tensor": [2], "strides": [-1]})"),
     "calls[0].inputs[0].values.x.strides[0]", "too small"},
    {"MarksList", with_value(R"({"tensor": [2], "marks": []})"),
     "calls[0].inputs[0].values.x.marks", "an object"},
    {"MarkUnknown", with_value(R"({"tensor": [2], "marks": {"0": "weak"}})"),
     "calls[0].inputs[0].values.x.marks.0", "not one of"},
    {"MarkNull", with_value(R"({"tensor": [2], "marks": {"0": null}})"),
     "calls[0].inputs[0].values.x.marks.0", "a string"},
    {"MarkDimOutside", with_value(R"({"tensor": [2], "marks": {"1": "static"}})"),
     "calls[0].inputs[0].values.x.marks.1", "not a dim"},
    {"MarkDimZeros", with_value(R"({"tensor": [2], "marks": {"00": "static"}})"),
     "calls[0].inputs[0].values.x.marks.00", "not a dim"},
    {"MarkDimWord", with_value(R"({"tensor": [2], "marks": {"first": "static"}})"),
     "calls[0].inputs[0].values.x.marks.first", "not a dim"},
    {"MarkDimNegative", with_value(R"({"tensor": [2], "marks": {"-1": "static"}})"),
     "calls[0].inputs[0].values.x.marks[\"-1\"]", "not a dim"},
    {"MarkOnScalar", with_value(R"({"tensor": [], "marks": {"0": "static"}})"),
     "calls[0].inputs[0].values.x.marks.0", "0 dims"},
    {"FieldsList", with_fields("[]"), "calls[0].inputs[0].fields", "an object"},
    {"FieldNumber", with_field("1"), "calls[0].inputs[0].fields.f", "an object"},
    {"FieldUnnamed", with_fields(R"({"": {"int": 1, "join": "max"}})"),
     "calls[0].inputs[0].fields[\"\"]", "empty name"},
    {"FieldTwice",
     with_fields(R"({"f": {"int": 1, "join": "max"}, "f": {"int": 1, "join": "max"}})"),
     "calls[0].inputs[0].fields.f", "twice"},
    {"FieldAsAValue", with_fields(R"({"x": {"int": 1, "join": "max"}})"),
     "calls[0].inputs[0].fields.x", "same name"},
    {"FieldWithoutJoin", with_field(R"({"int": 1})"), "calls[0].inputs[0].fields.f.join",
     "missing"},
    {"FieldOtherJoin", with_field(R"({"int": 1, "join": "sum"})"),
     "calls[0].inputs[0].fields.f.join", "equal, min, max, union"},
    {"FieldWithoutValue", with_field(R"({"join": "max"})"), "calls[0].inputs[0].fields.f",
     "has none"},
    {"FieldTwoValues", with_field(R"({"join": "max", "int": 1, "bool": true})"),
     "calls[0].inputs[0].fields.f", "bool and int"},
    {"FieldUnknown", with_field(R"({"join": "max", "int": 1, "type": 1})"),
     "calls[0].inputs[0].fields.f.type", "unknown key"},
    {"FieldFloat", with_field(R"({"join": "max", "float": 1.5})"),
     "calls[0].inputs[0].fields.f.float", "unknown key"},
    {"FieldIntReal", with_field(R"({"join": "max", "int": 4.0})"),
     "calls[0].inputs[0].fields.f.int", "an integer"},
    {"FieldBoolNumber", with_field(R"({"join": "max", "bool": 1})"),
     "calls[0].inputs[0].fields.f.bool", "true or false"},
    {"FieldStringNumber", with_field(R"({"join": "max", "string": 1})"),
     "calls[0].inputs[0].fields.f.string", "a string"},
    {"FieldTooLong",
     with_field(R"({"join": "max", "string": ")" + std::string(1025, 'x') + R"("})"),
     "calls[0].inputs[0].fields.f.string", "1025 bytes"},
    {"FieldHexOdd", with_field(R"({"join": "max", "hex": "0ff"})"),
     "calls[0].inputs[0].fields.f.hex", "pairs of hexadecimal digits"},
    {"FieldHexOther", with_field(R"({"join": "max", "hex": "0g"})"),
     "calls[0].inputs[0].fields.f.hex", "pairs of hexadecimal digits"},
    {"MarkOnInt", with_value(R"({"int": 1, "marks": {}})"), "calls[0].inputs[0].values.x.marks",
     "unknown key"},
};

INSTANTIATE_TEST_SUITE_P(All, ScenarioError, testing::ValuesIn(kBad),
                         [](const auto& about) { return std::string(about.param.name); });

TEST(Scenario, ExampleOfTheFormat_IsReadWhole) {
  const auto result = parse_scenario(R"({
  "format": "lockstep.scenario/1",
  "world_size": 4,
  "config": {"consistency": "same_graph", "automatic_dynamic": true, "assume_at_least_two": true, "recompile_limit": 8},
  "calls": [
    {"frame": "train_step",
     "inputs": [
       {"ranks": "0-2", "values": {"tokens": {"tensor": [5, 10], "dtype": "i64"}, "n": {"int": 3}, "lr": {"float": 0.1}, "training": {"bool": true}}},
       {"ranks": "3",   "values": {"tokens": {"tensor": [6, 10], "dtype": "i64", "marks": {"0": "dynamic"}}, "n": {"int": 3}, "lr": {"float": 0.1}, "training": {"bool": true}}}
     ]}
  ]
})",
                                     "job.json");
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_EQ(result->world_size, 4);
  EXPECT_EQ(result->config, DecisionConfig{.settle = false});
  ASSERT_EQ(result->calls.size(), 1U);
  const ScenarioCall& call = result->calls[0];
  EXPECT_EQ(call.present, RankSet::all(4));
  ASSERT_EQ(call.groups.size(), 2U);
  EXPECT_EQ(call.groups[1].ranks.text(), "3");
  const ScenarioValue& tokens = call.groups[1].values.at("tokens");
  EXPECT_EQ(tokens.sizes, (std::vector<std::int64_t>{6, 10}));
  EXPECT_EQ(tokens.dtype, DType::I64);
  EXPECT_EQ(tokens.marks, (std::vector<Mark>{Mark::Dynamic, Mark::None}));
  EXPECT_EQ(call.groups[0].values.at("n").number, 3);
  EXPECT_EQ(call.groups[0].values.at("training").kind, Kind::Bool);
}

TEST(Scenario, EdgesOfTheFormat_AreAccepted) {
  for (const std::string& text :
       {with_calls(""), with_inputs(""), with_calls(R"({"inputs": []})"), with_ranks("3,0-1"),
        with_ranks("0-1,2-3"),
        with_calls(R"({"inputs": [{"frame": "g", "ranks": "0", "values": {}}]})"),
        with_value(R"({"tensor": []})"),
        with_value(R"({"tensor": [0], "strides": [0], "marks": {}})"),
        with_value(R"({"tensor": [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1], "marks": {"15": "static"}})"),
        with_value(R"({"tensor": [9223372036854775807, 9223372036854775807]})"),
        with_value(R"({"int": -9223372036854775808})"), with_value(R"({"int": -0})"),
        with_value(R"({"float": 1e3})"), with_value(R"({"float": 3})"),
        with_value(R"({"float": 99999999999999999999})"), with_config("{}"),
        with_config(R"({"consistency": "shared_sizes", "recompile_limit": 64})"),
        with_config(R"({"settle": true})")})
    EXPECT_TRUE(parse_scenario(text, "job.json").has_value()) << text;
}

TEST(Scenario, SourceNamesOfAnyUtf8_AreKeptAsBytes) {
  const auto result = parse_scenario(
      with_inputs(R"({"ranks": "0-3", "values": {"\u00e4\u0000b": {"int": 1}, "z": {"int": 1}}})"),
      "job.json");
  ASSERT_TRUE(result.has_value());
  const auto& values = result->calls[0].groups[0].values;
  EXPECT_EQ(values.begin()->first, "z");
  EXPECT_EQ(values.rbegin()->first, std::string("\xC3\xA4\0b", 4));
}

TEST(Scenario, MissingFileAndDirectory_AreNamed) {
  const std::string missing = testing::TempDir() + "no such scenario.json";
  const auto none = load_scenario(missing);
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().message, missing + ": cannot be opened (No such file or directory).");
  const auto directory = load_scenario(testing::TempDir());
  ASSERT_FALSE(directory.has_value());
  EXPECT_EQ(directory.error().message,
            testing::TempDir() + ": is a directory, where a file is expected.");
}

TEST(Scenario, SixteenMillionRanks_StayRanges) {
  const auto result = parse_scenario(
      R"({"format": "lockstep.scenario/1", "world_size": 16777216, "calls": [{"frame": "f", "inputs": [
          {"ranks": "0-16777214", "values": {}}, {"ranks": "16777215", "values": {}}]}]})",
      "job.json");
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->calls[0].present.runs().size(), 1U);
}

TEST(JsonDocument, SyntaxError_NamesLineAndColumn) {
  const auto result = parse_json("{\"a\": 1,\n \"b\": }", "job.json");
  ASSERT_FALSE(result.has_value());
  EXPECT_NE(result.error().message.find("line 2, column 7"), std::string::npos)
      << result.error().message;
}

}  // namespace
}  // namespace lockstep::worker::simulator::scenario_test
