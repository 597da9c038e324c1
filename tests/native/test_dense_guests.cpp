// Queries that another library holds on the device: what the search reads, and when.
#include <cmath>
#include <cstring>
#include <limits>

#include "core/error.hpp"
#include "native/dense_cases.hpp"
#include "native/emulated.hpp"

namespace hyrecall::testing {
namespace {

constexpr GuestType kGuestTypes[] = {GuestType::kFloat32, GuestType::kFloat16, GuestType::kBFloat16,
                                     GuestType::kFloat64};
constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::size_t item_bytes_of(GuestType type) {
  return type == GuestType::kFloat64 ? 8 : type == GuestType::kFloat32 ? 4 : 2;
}

// A value as the type keeps it, and its bytes.
double store(GuestType type, double value, std::uint8_t* to) {
  if (type == GuestType::kFloat64) {
    std::memcpy(to, &value, 8);
    return value;
  }
  if (type == GuestType::kFloat32) {
    auto const kept = static_cast<float>(value);
    std::memcpy(to, &kept, 4);
    return double{kept};
  }
  bool const is_half = type == GuestType::kFloat16;
  std::uint16_t bits = 0;
  if (std::isfinite(value)) {
    bits = is_half ? float16_bits(value) : bfloat16_bits(value);
  } else {
    bits = static_cast<std::uint16_t>((is_half ? 0x7c00 : 0x7f80) | (std::isnan(value) ? 1 : 0) |
                                      (std::signbit(value) ? 0x8000 : 0));
  }
  std::memcpy(to, &bits, 2);
  if (!std::isfinite(value)) return value;
  return double{is_half ? float16_value(bits) : bfloat16_value(bits)};
}

struct Strides {
  std::int64_t row;
  std::int64_t column;
  std::int64_t first;  // where the first element lies
};

// A producer: its memory, and a stream that fills it when somebody waits for it.
class Producer {
 public:
  Producer(GuestType type, std::vector<float> const& values, std::uint32_t dim, Strides strides)
      : type_(type),
        n_rows_(static_cast<std::uint32_t>(values.size() / dim)),
        dim_(dim),
        strides_(strides),
        stream_(emulated().create_stream()) {
    std::int64_t last = 0;
    for (std::int64_t row : {std::int64_t{0}, std::int64_t{n_rows_} - 1}) {
      for (std::int64_t column : {std::int64_t{0}, std::int64_t{dim} - 1})
        last = std::max(last, at(row, column));
    }
    image_.assign((static_cast<std::size_t>(last) + 1) * item_bytes_of(type), 0xFF);
    memory_ = emulated().allocate(image_.size());
    for (std::uint32_t row = 0; row < n_rows_; ++row) {
      for (std::uint32_t i = 0; i < dim; ++i) set(row, i, double{values[row * dim + i]});
    }
  }
  ~Producer() {
    emulated().destroy_stream(stream_);
    emulated().release(memory_);
  }
  Producer(Producer const&) = delete;
  Producer& operator=(Producer const&) = delete;

  double set(std::uint32_t row, std::uint32_t column, double value) {
    return store(type_, value,
                 image_.data() + static_cast<std::size_t>(at(row, column)) * item_bytes_of(type_));
  }
  bool is_filled() const { return std::memcmp(memory_, image_.data(), image_.size()) == 0; }
  // What __dlpack__ does.
  device::Guest give() {
    auto gate = std::make_shared<device::Gate>(HYRECALL_EMULATED_FOLDER, 0);
    emulated().copy_later(stream_, memory_, image_.data(), image_.size());
    emulated().wait_for(reinterpret_cast<void*>(gate->stream()), stream_);
    void const* const first = static_cast<std::uint8_t const*>(memory_) +
                              static_cast<std::size_t>(strides_.first) * item_bytes_of(type_);
    return {{first, strides_.row, strides_.column, n_rows_, dim_, type_}, {}, std::move(gate)};
  }
  // As float32 has it.
  std::vector<float> values() const {
    GuestTensor const tensor{
        image_.data() + static_cast<std::size_t>(strides_.first) * item_bytes_of(type_),
        strides_.row,
        strides_.column,
        n_rows_,
        dim_,
        type_};
    std::vector<float> out;
    for (std::uint32_t row = 0; row < n_rows_; ++row) {
      for (std::uint32_t i = 0; i < dim_; ++i)
        out.push_back(static_cast<float>(guest_value(tensor, row, i)));
    }
    return out;
  }

 private:
  std::int64_t at(std::int64_t row, std::int64_t column) const {
    return strides_.first + row * strides_.row + column * strides_.column;
  }

  GuestType type_;
  std::uint32_t n_rows_;
  std::uint32_t dim_;
  Strides strides_;
  void* stream_;
  void* memory_ = nullptr;
  std::vector<std::uint8_t> image_;
};

// Where a search puts what it read.
struct Taken {
  Taken(device::Guest const& guest, std::vector<std::uint32_t> wanted)
      : rows(std::move(wanted)),
        values(rows.size() * guest.tensor.dim, -7.0f),
        readings(rows.size(), GuestReading{-7.0, 7}) {
    for (std::size_t i = 0; i < rows.size(); ++i)
      places.push_back(values.data() + i * guest.tensor.dim);
    all = {&guest, rows, places, readings};
  }
  Taken(Taken const&) = delete;
  Taken& operator=(Taken const&) = delete;

  std::vector<std::uint32_t> rows;
  std::vector<float> values;
  std::vector<float*> places;
  std::vector<GuestReading> readings;
  device::GuestRows all;
};

std::vector<std::uint32_t> first_rows(std::size_t n, std::uint32_t begin = 0) {
  std::vector<std::uint32_t> out(n);
  for (std::size_t i = 0; i < n; ++i) out[i] = begin + static_cast<std::uint32_t>(i);
  return out;
}

double norm_of(float const* values, std::uint32_t dim) {
  return row_norm(dim, [values](std::size_t i) { return double{values[i]}; });
}

// The batch's queries by way of a producer; what they are worth comes from its values.
void check_guests(DeviceWorld const& world, WorldBatch batch, GuestType type, Strides strides) {
  auto const table = world.upload();
  std::size_t const n = batch.group_of.size();
  Producer producer(type, batch.queries, world.dim, strides);
  batch.queries = producer.values();
  device::Guest const guest = producer.give();
  CHECK(!producer.is_filled());
  Taken taken(guest, first_rows(n));
  device::DenseSearch search = batch.search();
  search.queries = {};
  search.guest = &taken.all;
  Found const found = found_of(*table, search);
  auto const passes = [](std::uint32_t, std::uint32_t, std::uint32_t) { return true; };
  for (std::size_t q = 0; q < n; ++q) {
    CHECK(same_rows(found.rows[q], expected_rows(world, batch, q, passes)));
    float const* const wanted = batch.queries.data() + q * world.dim;
    if (batch.depths[q] == 0) {  // not searched: not read
      CHECK(taken.readings[q].column == 7 && *taken.places[q] == -7.0f);
      continue;
    }
    CHECK(std::memcmp(taken.places[q], wanted, world.dim * sizeof(float)) == 0);
    CHECK_EQ(taken.readings[q].column, world.dim);
    CHECK_EQ(taken.readings[q].value, norm_of(wanted, world.dim));
  }
}

TEST(guest_value_is_the_element_by_its_definition) {
  for (std::uint32_t pattern = 0; pattern < 1u << 16; ++pattern) {
    auto const bits = static_cast<std::uint16_t>(pattern);
    alignas(8) std::uint16_t const elements[8] = {0, bits};
    for (GuestType type : {GuestType::kFloat16, GuestType::kBFloat16}) {
      bool const is_half = type == GuestType::kFloat16;
      int const fraction_bits = is_half ? 10 : 7;
      int const bias = is_half ? 15 : 127;
      int const exponent = (bits & 0x7fff) >> fraction_bits;
      double const fraction = std::ldexp(bits & ((1 << fraction_bits) - 1), -fraction_bits);
      double wanted = exponent == 0 ? std::ldexp(fraction, 1 - bias)
                                    : std::ldexp(1.0 + fraction, exponent - bias);
      if (exponent == 2 * bias + 1)
        wanted = fraction == 0.0 ? kInfinity : std::numeric_limits<double>::quiet_NaN();
      if ((bits & 0x8000) != 0) wanted = -wanted;
      double const got = guest_value({elements, 8, 1, 1, 8, type}, 0, 1);
      if (std::isnan(wanted)) {
        CHECK(std::isnan(got));
      } else {
        CHECK(got == wanted && std::signbit(got) == std::signbit(wanted));
      }
    }
  }
  double const wide[] = {0x1p-1074, -1e300, 0.1, kInfinity};
  float const single[] = {0x1p-149f, -3e38f, 0.1f, -0.0f};
  for (std::uint32_t i = 0; i < 4; ++i) {
    CHECK_EQ(guest_value({wide, 2, 1, 2, 2, GuestType::kFloat64}, i / 2, i % 2), wide[i]);
    CHECK_EQ(guest_value({single + 3, -2, -1, 2, 2, GuestType::kFloat32}, i / 2, i % 2),
             double{single[3 - i]});
  }
}

TEST(guests_find_what_the_same_values_find_from_the_host) {
  Rng rng(11);
  for (char const* plane : {"int8", "rows"}) {
    PlaneOf const forced(plane);
    for (GuestType type : kGuestTypes) {
      for (std::uint32_t dim : {1u, 31u, 40u, 129u}) {
        RowType const rows = dim == 40 ? RowType::kFloat32 : RowType::kBFloat16;
        DeviceWorld const world = random_world(rng, rows, dim, {90, 0, 40});
        std::uint32_t const n = 1 + rng.below(std::uint32_t{8});
        WorldBatch batch;
        if (dim == 31) batch.tuning = kTight;
        batch.see(world.everything());
        batch.see(random_scope(rng, world));
        for (std::uint32_t q = 0; q < n; ++q) {
          std::vector<float> query = random_query(rng, world);
          if (q % 7 == 3) query.assign(dim, 0.0f);
          batch.ask(rng.below(2u), query, rng.below(12u));
        }
        std::int64_t const d = dim;
        Strides const layouts[] = {
            {d, 1, 0},
            {3 * d + 1, 1, 5},
            {1, n, 0},                     // transposed
            {-2 * d, 2, 2 * d * (n - 1)},  // upside down
            {0, 1, 0},                     // one row for all
        };
        for (std::size_t i = 0; i < 5; ++i) {
          if (dim == 40 || rng.below(3) == 0) check_guests(world, batch, type, layouts[i]);
        }
      }
    }
  }
}

TEST(guests_of_more_queries_than_a_pass_takes_come_in_their_order) {
  Rng rng(12);
  DeviceWorld const world = random_world(rng, RowType::kFloat32, 4, {20});
  WorldBatch batch;
  batch.see(world.everything());
  for (int q = 0; q < 1100; ++q) batch.ask(0, random_vector(rng, 4), 1);
  check_guests(world, batch, GuestType::kFloat64, {4, 1, 0});
}

TEST(guests_whose_candidates_overflow_are_read_again) {
  Rng rng(13);
  DeviceWorld world{RowType::kFloat32, 8, {{}}};
  std::vector<float> const same = random_vector(rng, 8);
  for (int i = 0; i < 900; ++i) world.add_row(world.segments[0], same, scattered_seq(i));
  world.place();
  WorldBatch batch;
  batch.tuning = kTight;
  batch.see(world.everything());
  for (int q = 0; q < 5; ++q) batch.ask(0, random_query(rng, world), 10);
  check_guests(world, batch, GuestType::kFloat32, {8, 1, 0});
}

// Any rows, one of them twice.
TEST(guests_are_the_rows_that_are_named) {
  Rng rng(14);
  std::vector<float> values = random_vector(rng, 6 * 5);
  Producer producer(GuestType::kFloat16, values, 5, {5, 1, 0});
  values = producer.values();
  device::Guest const guest = producer.give();
  Taken taken(guest, {4, 0, 4});
  device::read(taken.all);
  CHECK(producer.is_filled());
  for (std::size_t i = 0; i < 3; ++i) {
    float const* const wanted = values.data() + taken.rows[i] * 5;
    CHECK(std::memcmp(taken.places[i], wanted, 5 * sizeof(float)) == 0);
    CHECK_EQ(taken.readings[i].value, norm_of(wanted, 5));
  }
}

// The reading names the first value that is none, or the norm; the others find what they find.
TEST(guests_that_are_no_queries_find_nothing_and_say_why) {
  struct Fault {
    GuestType type;
    std::vector<std::pair<std::uint32_t, double>> values;
    std::uint32_t column;
    double value;
  };
  double const nan = std::numeric_limits<double>::quiet_NaN();
  double const beyond = 0x1.ffffffp127;  // the tie that rounds to infinity
  Fault const faults[] = {
      {GuestType::kFloat32, {{39, nan}}, 39, nan},
      {GuestType::kFloat16, {{35, nan}, {3, -kInfinity}}, 3, -kInfinity},
      {GuestType::kBFloat16, {{0, kInfinity}, {1, nan}}, 0, kInfinity},
      {GuestType::kFloat64, {{33, beyond}, {38, nan}}, 33, beyond},
      {GuestType::kFloat64, {{33, -1e300}}, 33, -1e300},
  };
  Rng rng(15);
  DeviceWorld const world = random_world(rng, RowType::kFloat32, 40, {300});
  auto const table = world.upload();
  auto const passes = [](std::uint32_t, std::uint32_t, std::uint32_t) { return true; };
  auto const check = [&](WorldBatch const& batch, Producer& producer, std::uint32_t column,
                         double value) {
    device::Guest const guest = producer.give();
    Taken taken(guest, first_rows(3));
    device::DenseSearch search = batch.search();
    search.queries = {};
    search.guest = &taken.all;
    Found const found = found_of(*table, search);
    CHECK(found.rows[1].empty());
    CHECK_EQ(taken.readings[1].column, column);
    double const got = taken.readings[1].value;
    CHECK(got == value || (std::isnan(value) && std::isnan(got)));
    WorldBatch wanted = batch;
    wanted.queries = producer.values();
    for (std::size_t q : {0, 2})
      CHECK(same_rows(found.rows[q], expected_rows(world, wanted, q, passes)));
  };
  WorldBatch batch;
  batch.see(world.everything());
  for (int q = 0; q < 3; ++q) batch.ask(0, random_vector(rng, 40), 10);
  for (Fault const& fault : faults) {
    Producer producer(fault.type, batch.queries, 40, {40, 1, 0});
    for (auto const& [column, value] : fault.values) producer.set(1, column, value);
    check(batch, producer, fault.column, fault.value);
  }
  for (double norm : {0x1.fp-61, 0x1.1p60, 0x1p-140, 0x1p120}) {
    Producer producer(GuestType::kFloat64, batch.queries, 40, {40, 1, 0});
    for (std::uint32_t i = 0; i < 40; ++i) producer.set(1, i, i == 17 ? -norm : 0.0);
    check(batch, producer, 40, norm);
  }
  // The greatest float64 that rounds to a float32 is one, and its norm is what is refused.
  Producer producer(GuestType::kFloat64, batch.queries, 40, {40, 1, 0});
  for (std::uint32_t i = 0; i < 40; ++i) producer.set(1, i, 0.0);
  producer.set(1, 5, 0x1.fffffefffffffp127);
  check(batch, producer, 40, 0x1.fffffep127);
}

TEST(guests_of_another_device_or_width_are_our_fault) {
  Rng rng(16);
  DeviceWorld const world = random_world(rng, RowType::kFloat32, 8, {30});
  auto const table = world.upload();
  WorldBatch batch;
  batch.see(world.everything());
  batch.ask(0, random_vector(rng, 8), 3);
  Producer producer(GuestType::kFloat32, random_vector(rng, 9), 9, {9, 1, 0});
  device::Guest const guest = producer.give();
  Taken taken(guest, {0});
  device::DenseSearch search = batch.search();
  search.guest = &taken.all;
  bool refused = false;
  try {
    found_of(*table, search);
  } catch (Error const& error) {
    refused = error.code() == ErrorCode::kInternal;
  }
  CHECK(refused);
}

}  // namespace
}  // namespace hyrecall::testing
