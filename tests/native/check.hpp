// A test is TEST(name) { CHECK(...); }. Nothing to install: sanitizers see our code and the
// standard library only.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace hyrecall::testing {

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct Skip : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Test {
  char const* name;
  void (*body)();
};

inline std::vector<Test>& tests() {
  static std::vector<Test> all;
  return all;
}

struct Registration {
  Registration(char const* name, void (*body)()) { tests().push_back({name, body}); }
};

[[noreturn]] inline void fail(char const* file, int line, std::string const& what) {
  throw Failure(std::string(file) + ":" + std::to_string(line) + ": " + what);
}

template <typename A, typename B>
void check_equal(A const& a, B const& b, char const* text, char const* file, int line) {
  if (a == b) return;
  std::ostringstream what;
  what << text;
  if constexpr (requires { what << a << b; }) what << ": " << a << " != " << b;
  fail(file, line, what.str());
}

// How many random cases a test tries. AddressSanitizer looks at every access and not at values, and
// makes each longer: a third shows it every way through the code.
template <std::integral T>
constexpr T cases(T n) {
#if defined(__SANITIZE_ADDRESS__)
  return n / 3;
#else
  return n;
#endif
}

// Random numbers whose sequence is the same with every standard library.
class Rng {
 public:
  explicit Rng(std::uint64_t seed) : engine_(seed) {}
  // An integer in [0, n).
  template <std::integral T>
  T below(T n) {
    return static_cast<T>(engine_() % static_cast<std::uint64_t>(n));
  }
  double unit() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }  // in [0, 1)

 private:
  std::mt19937_64 engine_;
};

}  // namespace hyrecall::testing

#define TEST(test_name)                                                                          \
  static void test_name();                                                                       \
  static hyrecall::testing::Registration const registration_##test_name(#test_name, &test_name); \
  static void test_name()
#define CHECK(condition)                                                       \
  do {                                                                         \
    if (!(condition)) hyrecall::testing::fail(__FILE__, __LINE__, #condition); \
  } while (false)
#define CHECK_EQ(a, b) hyrecall::testing::check_equal((a), (b), #a " == " #b, __FILE__, __LINE__)
