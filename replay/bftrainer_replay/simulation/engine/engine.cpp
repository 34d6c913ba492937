// The loop of a replay in C++: what bftrainer_replay/simulation and bftrainer/decide do for the
// scenarios that scenario.py accepts, with the same arithmetic in the same order, so that
// every figure is equal to the last bit. The Python code is the definition: comments here name its
// functions, and say only what differs.
//
// Compile without fused multiply-add (-ffp-contract=off): Python rounds after each operation.

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

#ifndef ENGINE_SOURCE
#define ENGINE_SOURCE ""  // a library built by hand is not used
#endif

namespace {

using std::int32_t;
using std::int64_t;
using std::size_t;
using std::uint64_t;
using std::vector;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// ---------------------------------------------------------------------------------------------
// What Python passes. library.py has the same structures, in the same order.

struct Shape {  // a curve, with the sizes of the trainers that have it
  int64_t min_nodes, max_nodes;
  int64_t n_points;         // breakpoints of the value curve
  const int64_t* nodes;     // [n_points]
  const double* value;      // [n_points]
  const double* rates;      // [max_nodes + 1] model.rates: what trainers really do
  const double* table;      // [nodes of the last point + 1] gains._values
  const double* at;         // [nodes of the last point + 1] Curve.at
  int64_t n_corners;
  const int64_t* corner_nodes;  // objectives._corners
  const double* corner_rates;
  double one;               // rate_of_one
  int64_t takes_one;        // RankCache.kind
};

struct TrainerIn {
  int64_t shape, kind;
  double at_s, up_s, down_s, total;  // total: infinite if unknown
};

enum Policy : int64_t { kPriority = 0, kOptimum = 1, kEqualShare = 2, kPlain = 3 };

struct Input {
  int64_t n_nodes, n_events, n_trainers, n_shapes;
  int64_t max_parallel;  // -1: none
  int64_t policy;
  int64_t is_relative;   // the objective divides by the rate of an equal share
  int64_t rigid, pool_events_only, until_done, compensated, keep_rows;
  int64_t plain_nodes;
  double start_s, end_s, forward_s, kappa, places;
  const int32_t* initial;
  int64_t n_initial;
  const double* event_s;       // [n_events]
  const int64_t* joined_cuts;  // [n_events + 1]
  const int32_t* joined;
  const int64_t* left_cuts;
  const int32_t* left;         // sorted within an event
  const Shape* shapes;
  const TrainerIn* trainers;   // in order of submission
  const volatile int64_t* stop;  // not 0: the replay is to end without a result
};

struct Row {  // LedgerRow
  double at_s, took_s, value, samples, lost_to_preemption, lost_to_rescale, invested;
  int64_t joined, left, submitted, finished, pool_nodes, taken_nodes;
  int64_t counts_end, answer_end;  // ends of the row in the arrays of counts
};

struct Pair {
  int32_t trainer, nodes;
};

struct TrainerOut {
  double since_s, samples, stalled_until_s, ready_s, preempted_until_s;
  double lost_to_preemption, lost_to_rescale, admitted_s, started_s, finished_s;
  double node_s, stalled_node_s, waits_since_s, waited_s;  // not a number: None
  int64_t preemptions, rescales, submitted, held_end;
};

// ---------------------------------------------------------------------------------------------

// sum() of floats: since Python 3.12, it carries the rounding errors (Neumaier 1974).
class Sum {
 public:
  Sum(bool compensated) : compensated_(compensated) {}
  void add(double x) {
    double total = sum_ + x;
    if (compensated_) {
      error_ += std::fabs(sum_) >= std::fabs(x) ? (sum_ - total) + x : (x - total) + sum_;
    }
    sum_ = total;
  }
  double value() const {
    return error_ != 0.0 && std::isfinite(error_) ? sum_ + error_ : sum_;
  }

 private:
  bool compensated_;
  double sum_ = 0.0, error_ = 0.0;
};

// max() and min() of two numbers, of equal ones the first, as in Python.
double larger(double a, double b) { return b > a ? b : a; }
double smaller(double a, double b) { return b < a ? b : a; }

// ReplayedTrainer under stall costs: every rescale is a stall of all nodes.
struct Run {
  const Shape* shape = nullptr;
  const TrainerIn* told = nullptr;
  double since_s = 0, samples = 0, ready_s = -kInf, stalled_until_s = -kInf;
  double preempted_until_s = -kInf, lost_to_preemption = 0, lost_to_rescale = 0;
  double node_s = 0, stalled_node_s = 0, waited_s = 0;
  double admitted_s = kNaN, started_s = kNaN, finished_s = kNaN, waits_since_s = kNaN;
  double rate = 0, steady_s = 0, finishes_s = kInf;
  double sized_s = 0;    // Active.sized_s
  double now_samples = 0;  // ReplayWorld._samples
  int64_t preemptions = 0, rescales = 0;
  bool has_rescaling = false, is_started = false;
  vector<int32_t> held;  // in name order

  int64_t nodes() const { return static_cast<int64_t>(held.size()); }

  double samples_at(double at_s) const {
    return at_s > steady_s ? samples + rate * (at_s - steady_s) : samples;
  }

  void bend() {
    rate = shape->rates[nodes()];
    steady_s = larger(since_s, ready_s);
    finishes_s = kInf;
    if (rate > 0 && told->total != kInf) {
      finishes_s = steady_s + larger(told->total - samples, 0.0) / rate;
    }
  }

  void settle(double at_s) {
    double done = samples_at(at_s);
    double preempted = larger(smaller(at_s, preempted_until_s) - since_s, 0.0);
    double stalled = larger(smaller(at_s, ready_s) - since_s, 0.0);
    lost_to_preemption += rate * preempted;
    lost_to_rescale += rate * larger(stalled - preempted, 0.0);
    node_s += static_cast<double>(nodes()) * (at_s - since_s);
    stalled_node_s += static_cast<double>(nodes()) * stalled;
    samples = done;
    since_s = at_s;
    bend();
  }

  // rescaled() for trainers without a start: the nodes have changed.
  void stall(double at_s, bool loses, bool grows) {
    double until = has_rescaling && at_s < ready_s ? ready_s : at_s;
    if (loses) until = larger(until, at_s + told->down_s);
    if (grows) until = larger(until, at_s + told->up_s);
    ready_s = stalled_until_s = until;
    has_rescaling = true;
  }

  double longest_wait_s(double at_s) const {
    double since = std::isnan(started_s) ? admitted_s : waits_since_s;
    if (nodes() || !std::isnan(finished_s) || std::isnan(since)) return waited_s;
    return larger(waited_s, at_s - since);
  }
};

// The idle nodes that no trainer has, in name order.
class FreeNodes {
 public:
  FreeNodes(size_t nodes) : words_((nodes + 63) / 64) {}
  void add(int32_t node) { words_[node / 64] |= bit(node); }
  void remove(int32_t node) { words_[node / 64] &= ~bit(node); }
  // Remove and return the first node at or after the word `from`, which is advanced.
  int32_t take(size_t& from) {
    while (!words_.at(from)) ++from;
    int32_t node = static_cast<int32_t>(from * 64 + std::countr_zero(words_[from]));
    remove(node);
    return node;
  }

 private:
  static uint64_t bit(int32_t node) { return uint64_t{1} << (node % 64); }
  vector<uint64_t> words_;
};

// ---------------------------------------------------------------------------------------------
// allocation/exact.py

constexpr int kBits = 58, kResolutionBits = 42;
constexpr int64_t kIllegal = -(int64_t{1} << 61);

int bit_length(uint64_t v) { return 64 - std::countl_zero(v); }

int64_t floor_div(int64_t a, int64_t b) {
  int64_t quotient = a / b;
  return quotient - (a % b != 0 && (a < 0) != (b < 0));
}

class Exact {
 public:
  // The gains of `rows` trainers at 0 .. width - 1 nodes; the caller fills them.
  double* reset(size_t rows, size_t width) {
    rows_ = rows;
    width_ = width;
    gains_.assign(rows * width, -kInf);
    return gains_.data();
  }

  // Write the optimal counts for a pool; `standing` are the counts without a rescale.
  void solve(int64_t pool, const vector<int64_t>& standing, vector<int64_t>& counts) {
    used_ = std::min(width_, static_cast<size_t>(pool) + 1);
    score(standing);
    Choices unlimited = choices(0);
    if (unlimited.nodes <= pool) {
      counts = unlimited.counts;
      return;
    }
    int64_t price, gap;
    find_price(pool, unlimited, price, gap);
    program(pool, price, gap, counts);
  }

 private:
  struct Choices {
    vector<int64_t> counts;
    int64_t score = 0, nodes = 0;
    int64_t dual_at(int64_t price, int64_t pool) const { return score + price * (pool - nodes); }
  };

  const int64_t* row(size_t j) const { return &scores_[j * used_]; }

  void score(const vector<int64_t>& standing) {
    double highest = -kInf, lowest = kInf;
    for (size_t j = 0; j < rows_; ++j) {
      for (size_t n = 0; n < used_; ++n) {
        double gain = gains_[j * width_ + n];
        double legal = gain > -kInf ? gain : 0.0;
        highest = std::max(highest, legal);
        lowest = std::min(lowest, legal);
      }
    }
    // The scores would be beyond 64 bits: the core decides what that means.
    if (!std::isfinite(highest) || !std::isfinite(lowest)) throw std::overflow_error("a gain");
    int exponent = 0;
    std::frexp(larger(highest, -lowest), &exponent);
    int bits = std::min(kResolutionBits, kBits - bit_length(std::max(rows_, used_)));
    int64_t penalty = 4 * (static_cast<int64_t>(rows_) + 1);
    int shift = bits - exponent;
    bool is_usual = std::abs(shift) < 500;  // then a product is as exact as ldexp
    double scale = is_usual ? std::ldexp(1.0, shift) : 0.0;
    scores_.resize(rows_ * used_);
    for (size_t j = 0; j < rows_; ++j) {
      for (size_t n = 0; n < used_; ++n) {
        double gain = gains_[j * width_ + n];
        int64_t& score = scores_[j * used_ + n];
        if (!(gain > -kInf)) {
          score = kIllegal;
          continue;
        }
        double scaled = is_usual ? gain * scale : std::ldexp(gain, shift);
        score = static_cast<int64_t>(std::nearbyint(scaled));
        if (static_cast<int64_t>(n) != standing[j]) score -= penalty;
      }
    }
  }

  Choices choices(int64_t price) const {
    Choices chosen;
    chosen.counts.resize(rows_);
    for (size_t j = 0; j < rows_; ++j) {
      const int64_t* scores = row(j);
      int64_t best = scores[0], paid = 0;
      size_t count = 0;
      for (size_t n = 1; n < used_; ++n) {
        paid += price;
        if (scores[n] - paid > best) {
          best = scores[n] - paid;
          count = n;
        }
      }
      choose(chosen, j, count);
    }
    return chosen;
  }

  void choose(Choices& chosen, size_t j, size_t count) const {
    chosen.counts[j] = static_cast<int64_t>(count);
    chosen.score += row(j)[count];
    chosen.nodes += static_cast<int64_t>(count);
  }

  // _price: the price of the least bound, and the gap between the bound and an allocation.
  void find_price(int64_t pool, const Choices& unlimited, int64_t& price, int64_t& gap) const {
    Choices too_many = unlimited, fitting;
    fitting.counts.resize(rows_);
    for (size_t j = 0; j < rows_; ++j) {
      size_t smallest = 0;
      while (smallest < used_ && row(j)[smallest] <= kIllegal) ++smallest;
      choose(fitting, j, smallest == used_ ? 0 : smallest);
    }
    while (true) {
      price = floor_div(too_many.score - fitting.score, too_many.nodes - fitting.nodes);
      Choices chosen = choices(price);
      int64_t bound = chosen.dual_at(price, pool);
      if (bound <= too_many.dual_at(price, pool)) {
        gap = bound - primal(pool, fitting, too_many);
        return;
      }
      (chosen.nodes > pool ? too_many : fitting) = std::move(chosen);
    }
  }

  // The score of _primal: only the value of this allocation matters.
  int64_t primal(int64_t pool, const Choices& fitting, const Choices& too_many) const {
    vector<int64_t> counts = fitting.counts;
    int64_t free = pool - fitting.nodes;
    for (size_t j = 0; j < rows_; ++j) {
      int64_t more = too_many.counts[j] - counts[j];
      if (too_many.counts[j] != fitting.counts[j] && more <= free) {
        free -= more;
        counts[j] = too_many.counts[j];
      }
    }
    while (free > 0) {
      int64_t best = 0, count = 0;
      size_t changed = rows_;
      for (size_t j = 0; j < rows_; ++j) {
        const int64_t* scores = row(j);
        int64_t present = scores[counts[j]];
        int64_t end = std::min<int64_t>(static_cast<int64_t>(used_) - 1, counts[j] + free);
        for (int64_t n = 0; n <= end; ++n) {
          if (scores[n] - present > best) {
            best = scores[n] - present;
            changed = j;
            count = n;
          }
        }
      }
      if (changed == rows_) break;
      free += counts[changed] - count;
      counts[changed] = count;
    }
    int64_t filled_up = 0;
    for (size_t j = 0; j < rows_; ++j) filled_up += row(j)[counts[j]];
    int64_t excess = too_many.nodes - pool, best = kIllegal;
    bool can_shrink = false;
    for (size_t j = 0; j < rows_; ++j) {
      const int64_t* scores = row(j);
      int64_t present = scores[too_many.counts[j]];
      for (int64_t n = 0; n <= too_many.counts[j] - excess; ++n) {
        if (scores[n] > kIllegal && scores[n] - present > best) {
          best = scores[n] - present;
          can_shrink = true;
        }
      }
    }
    return can_shrink ? std::max(filled_up, too_many.score + best) : filled_up;
  }

  // _program, over the counts that lose no more than `gap` against the best at `price`.
  void program(int64_t pool, int64_t price, int64_t gap, vector<int64_t>& counts) {
    survivors_.resize(rows_);
    counts.resize(rows_);
    int64_t room = pool;
    for (size_t j = 0; j < rows_; ++j) {
      const int64_t* scores = row(j);
      int64_t best = scores[0], paid = 0;
      for (size_t n = 1; n < used_; ++n) {
        paid += price;
        best = std::max(best, scores[n] - paid);
      }
      survivors_[j].clear();
      paid = 0;
      for (size_t n = 0; n < used_; ++n, paid += price) {
        if (best - (scores[n] - paid) <= gap) survivors_[j].push_back(static_cast<int64_t>(n));
      }
      counts[j] = survivors_[j].at(0);
      room -= counts[j];
    }
    best_.assign(1, 0);
    chosen_.resize(rows_);
    stages_.clear();
    for (size_t j = rows_; j-- > 0;) {
      vector<int64_t>& kept = survivors_[j];
      while (!kept.empty() && kept.back() > counts[j] + room) kept.pop_back();
      if (kept.size() < 2) continue;
      extend(row(j), kept, counts[j], room, chosen_[j]);
      stages_.push_back(j);
    }
    size_t left = std::max_element(best_.begin(), best_.end()) - best_.begin();
    for (size_t stage = stages_.size(); stage-- > 0;) {
      int64_t extra = chosen_[stages_[stage]][left];
      counts[stages_[stage]] += extra;
      left -= static_cast<size_t>(extra);
    }
  }

  // _extended: outside of best_, a total is illegal; of equal ones, the larger extra is chosen.
  void extend(const int64_t* scores, const vector<int64_t>& kept, int64_t smallest, int64_t room,
              vector<int64_t>& chosen) {
    int64_t largest = kept.back() - smallest, known = static_cast<int64_t>(best_.size());
    int64_t length = std::min(known + largest, room + 1);
    next_.assign(length, 0);
    chosen.assign(length, largest);
    for (size_t i = kept.size(); i-- > 0;) {
      int64_t extra = kept[i] - smallest, gained = scores[kept[i]];
      bool is_first = i + 1 == kept.size();
      for (int64_t m = 0; m < length; ++m) {
        int64_t rest = m - extra;
        int64_t total = (rest >= 0 && rest < known ? best_[rest] : kIllegal) + gained;
        if (is_first || total > next_[m]) {
          next_[m] = total;
          chosen[m] = extra;
        }
      }
    }
    best_.swap(next_);
  }

  size_t rows_ = 0, width_ = 0, used_ = 0;
  vector<double> gains_;
  vector<int64_t> scores_;
  vector<vector<int64_t>> survivors_, chosen_;
  vector<int64_t> best_, next_;
  vector<size_t> stages_;
};

// ---------------------------------------------------------------------------------------------

// A value curve as the problem has it: gains._values and Curve.at of every count.
struct Values {
  double unit = kNaN;
  vector<double> table, at;
};

struct Demand {  // TrainerDemand, of an active trainer
  size_t trainer;
  double up_s, down_s, weight;
  const double* table;
  const double* at;
  int64_t current, standing;
  bool without_zero;
};

constexpr double kUnknownS = 86400.0;   // line.UNKNOWN_S
constexpr double kPaysWithin = 0.25;    // bftrainer.PAYS_WITHIN

class Replay {
 public:
  explicit Replay(const Input& in)
      : in_(in), free_(in.n_nodes), owner_(in.n_nodes, -1), in_pool_(in.n_nodes, 0),
        runs_(in.n_trainers), previous_(in.n_trainers, 0), scaled_(in.n_shapes),
        is_hit_(in.n_trainers, 0) {
    for (int64_t i = 0; i < in.n_trainers; ++i) {
      runs_[i].told = &in.trainers[i];
      runs_[i].shape = &in.shapes[in.trainers[i].shape];
    }
  }

  void run() {
    double at_s;
    while (next_event(at_s)) {
      if (*in_.stop) throw std::runtime_error("interrupted");
      auto began = std::chrono::steady_clock::now();
      wake_s_ = kInf;
      decide(at_s);
      std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
      record(at_s, took.count());
      place(at_s);
    }
    for (size_t i : submitted_) {
      held_.insert(held_.end(), runs_[i].held.begin(), runs_[i].held.end());
      held_ends_.push_back(static_cast<int64_t>(held_.size()));
    }
  }

  vector<Row> rows_;
  vector<Pair> counts_;
  vector<int32_t> answers_, held_;
  vector<int64_t> held_ends_;
  vector<double> took_s_;
  Row last_{};

  int64_t n_submitted() const { return static_cast<int64_t>(submitted_.size()); }

  TrainerOut trainer(size_t i) const {
    const Run& run = runs_[i];
    return {run.since_s, run.samples, run.stalled_until_s, run.ready_s, run.preempted_until_s,
            run.lost_to_preemption, run.lost_to_rescale, run.admitted_s, run.started_s,
            run.finished_s, run.node_s, run.stalled_node_s, run.waits_since_s, run.waited_s,
            run.preemptions, run.rescales, i < submitted_.size(), 0};
  }

 private:
  // ReplayWorld.next_event, and what the coordinator makes of the event. False: the replay ends.
  bool next_event(double& at_s) {
    if (in_.until_done && is_done()) return totals(), false;
    double change_s = kInf;
    if (next_change_ < 0) change_s = in_.start_s;
    else if (next_change_ < in_.n_events) change_s = in_.event_s[next_change_];
    at_s = smaller(change_s, wake_s_ == kInf ? kInf : larger(wake_s_, now_s_));
    if (!in_.pool_events_only) {
      double unfinished = static_cast<double>(n_submitted() - n_finished_);
      if (unfinished < in_.places) at_s = smaller(at_s, arrival_s());
      double first = kInf;
      for (size_t i : started_) first = smaller(first, runs_[i].finishes_s);
      at_s = smaller(at_s, first);
    }
    if (at_s > in_.end_s) {
      end();
      return false;
    }
    now_s_ = at_s;
    row_ = Row{};
    if (change_s <= at_s) change_pool(at_s);
    for (size_t i : started_) runs_[i].now_samples = runs_[i].samples_at(at_s);
    finish_due(at_s);
    while (arrival_s() <= at_s) {
      size_t i = submitted_.size();
      submitted_.push_back(i);
      runs_[i].since_s = at_s;
      runs_[i].bend();
      ++row_.submitted;
    }
    admit(at_s);
    return true;
  }

  double arrival_s() const {
    if (n_submitted() == in_.n_trainers) return kInf;
    return larger(in_.trainers[submitted_.size()].at_s, in_.start_s);
  }

  bool is_done() const {
    if (n_submitted() < in_.n_trainers) return false;
    return std::all_of(submitted_.begin(), submitted_.end(), [&](size_t i) {
      return !std::isnan(runs_[i].finished_s) || runs_[i].told->total == kInf;
    });
  }

  void change_pool(double at_s) {
    int64_t k = next_change_++;
    if (k < 0) {
      for (int64_t x = 0; x < in_.n_initial; ++x) join(in_.initial[x]);
      row_.joined = in_.n_initial;
      return;
    }
    const int32_t* left = in_.left + in_.left_cuts[k];
    const int32_t* left_end = in_.left + in_.left_cuts[k + 1];
    hit_.clear();
    for (const int32_t* node = left; node < left_end; ++node) {
      if (!in_pool_[*node]) throw std::invalid_argument("a node left twice");
      in_pool_[*node] = 0;
      int32_t owner = owner_[*node];
      if (owner < 0) {
        free_.remove(*node);
      } else if (!is_hit_[owner]) {
        is_hit_[owner] = 1;
        hit_.push_back(owner);
      }
    }
    for (size_t i : hit_) {
      lose_nodes(runs_[i], at_s, left, left_end);
      is_hit_[i] = 0;
    }
    for (const int32_t* node = left; node < left_end; ++node) owner_[*node] = -1;
    int64_t begin = in_.joined_cuts[k], end = in_.joined_cuts[k + 1];
    for (int64_t x = begin; x < end; ++x) join(in_.joined[x]);
    row_.joined = end - begin;
    row_.left = left_end - left;
    pool_ -= row_.left;
  }

  void join(int32_t node) {
    if (in_pool_[node]) throw std::invalid_argument("a node joined twice");
    in_pool_[node] = 1;
    free_.add(node);
    ++pool_;
  }

  void lose_nodes(Run& run, double at_s, const int32_t* left, const int32_t* left_end) {
    run.settle(at_s);
    ++run.preemptions;
    if (!in_.rigid) {
      run.preempted_until_s = larger(run.preempted_until_s, at_s + run.told->down_s);
    }
    vector<int32_t> kept;
    std::set_difference(run.held.begin(), run.held.end(), left, left_end,
                        std::back_inserter(kept));
    run.held.swap(kept);
    if (!in_.rigid) run.stall(at_s, true, false);
    run.bend();
    if (run.held.empty()) run.waits_since_s = at_s;
    run.sized_s = at_s;
  }

  void finish_due(double at_s) {
    size_t kept = 0;
    for (size_t i : started_) {
      Run& run = runs_[i];
      if (!(run.finishes_s <= at_s || run.now_samples >= run.told->total)) {
        started_[kept++] = i;
        continue;
      }
      run.settle(at_s);
      run.samples = run.told->total;
      run.finished_s = at_s;
      for (int32_t node : run.held) release(node);
      run.held.clear();
      run.bend();
      done_samples_ += run.samples;
      done_lost_to_preemption_ += run.lost_to_preemption;
      done_lost_to_rescale_ += run.lost_to_rescale;
      ++row_.finished;
    }
    if (kept == started_.size()) return;
    started_.resize(kept);
    n_finished_ += row_.finished;
    std::erase_if(active_, [&](size_t i) { return !std::isnan(runs_[i].finished_s); });
  }

  void release(int32_t node) {
    owner_[node] = -1;
    if (in_pool_[node]) free_.add(node);
  }

  void admit(double at_s) {
    int64_t places = n_submitted() - n_admitted_;
    if (in_.max_parallel >= 0) {
      places = std::min(places, in_.max_parallel - static_cast<int64_t>(active_.size()));
    }
    for (; places > 0; --places) {
      size_t i = static_cast<size_t>(n_admitted_++);
      active_.push_back(i);
      runs_[i].admitted_s = at_s;
    }
  }

  double remaining(const Run& run) const {
    return larger(run.told->total - (run.is_started ? run.now_samples : 0.0), 0.0);
  }

  // line.one_node_s; infinite for an unknown length
  double one_node_s(const Run& run) const { return remaining(run) / run.shape->one; }

  double key_s(const Run& run) const {
    if (run.told->total != kInf) return run.admitted_s + one_node_s(run);
    double done_s = (run.is_started ? run.now_samples : 0.0) / run.shape->one;
    return run.admitted_s + larger(done_s, kUnknownS);
  }

  // ----- decisions

  void decide(double at_s) {
    demands_.clear();
    new_counts_.assign(active_.size(), 0);
    row_.value = 0.0;
    switch (in_.policy) {
      case kPriority: decide_by_priority(at_s); break;
      case kOptimum: decide_optimum(); break;
      case kEqualShare: decide_equal_shares(); break;
      default: decide_plain();
    }
  }

  // BFTrainer.decide for an objective without a priority order
  void decide_optimum() {
    double share = in_.is_relative ? equal_share() : 0.0, largest = 0.0;
    vector<double>& share_rates = scratch_;
    share_rates.clear();
    if (in_.is_relative) {
      for (size_t i : active_) share_rates.push_back(equal_share_rate(*runs_[i].shape, share));
      for (double rate : share_rates) largest = larger(largest, rate);
    }
    members_.clear();
    for (size_t j = 0; j < active_.size(); ++j) {
      const Run& run = runs_[active_[j]];
      Demand demand = demand_of(active_[j]);
      if (in_.is_relative && share_rates[j] != 0.0) {
        const Values& values = scaled(run.told->shape, share_rates[j] / largest);
        demand.table = values.table.data();
        demand.at = values.at.data();
      }
      demands_.push_back(demand);
      members_.push_back(j);
    }
    solve(false);
  }

  Demand demand_of(size_t i) const {
    const Run& run = runs_[i];
    int64_t current = run.nodes();
    return {i, run.told->up_s, run.told->down_s, 1.0, run.shape->table, run.shape->at, current,
            current >= run.shape->min_nodes ? current : 0, false};
  }

  // BFTrainer._decide_by_priority with line.priority_order
  void decide_by_priority(double at_s) {
    int64_t queued = n_submitted() - n_admitted_;
    int64_t unfinished = static_cast<int64_t>(active_.size()) + queued;
    peak_ = unfinished ? std::max(unfinished, peak_) : 0;
    ranks_.clear();
    for (size_t j = 0; j < active_.size(); ++j) ranks_.emplace_back(key_s(runs_[active_[j]]), j);
    std::sort(ranks_.begin(), ranks_.end());
    move_behind_starts(at_s);
    double total = static_cast<double>(unfinished) + in_.kappa * static_cast<double>(peak_);
    chosen_.clear();
    kind_left_.clear();
    int64_t free = pool_;
    size_t guaranteed = active_.size();
    for (size_t i = 0; i < ranks_.size(); ++i) {
      size_t j = ranks_[i].second;
      const Run& run = runs_[active_[j]];
      double weight = (total - static_cast<double>(i)) / total;
      if (free <= 0) {
        if (!run.held.empty()) chosen_.emplace_back(j, weight);
        continue;
      }
      int64_t smallest = run.shape->min_nodes;
      if (guaranteed == active_.size() && smallest <= pool_) guaranteed = j;
      int64_t& left = kind_left_.try_emplace(run.told->kind, pool_).first->second;
      left -= smallest;
      if (left >= 0 || !run.held.empty()) chosen_.emplace_back(j, weight);
      free -= run.shape->takes_one;
    }
    std::sort(chosen_.begin(), chosen_.end());
    members_.clear();
    for (auto [j, weight] : chosen_) {
      Demand demand = demand_of(active_[j]);
      demand.weight = weight;
      demand.without_zero = j == guaranteed;
      stretch(demand);
      demands_.push_back(demand);
      members_.push_back(j);
    }
    solve(true);
  }

  // _within_remaining_time
  void stretch(Demand& demand) const {
    const Run& run = runs_[demand.trainer];
    if (run.told->total == kInf) return;
    double within_s = larger(kPaysWithin * one_node_s(run), 1.0);
    if (within_s >= in_.forward_s) return;
    double factor = in_.forward_s / within_s;
    demand.up_s = factor * demand.up_s;
    demand.down_s = factor * demand.down_s;
    if (!std::isfinite(demand.up_s + demand.down_s)) throw std::overflow_error("a cost");
  }

  // line.behind_starts and line._moved_behind
  void move_behind_starts(double at_s) {
    using Start = std::tuple<double, double, size_t>;  // sized_s, key, index
    vector<Start> sized;
    for (size_t j = 0; j < active_.size(); ++j) {
      const Run& run = runs_[active_[j]];
      if (!run.held.empty() && run.told->total != kInf && run.sized_s + in_.forward_s > at_s) {
        sized.emplace_back(run.sized_s, key_s(run), j);
      }
    }
    if (sized.empty()) return;
    std::sort(sized.begin(), sized.end());
    vector<Start> last{sized[0]};
    for (size_t k = 1; k < sized.size(); ++k) {
      last.push_back(std::get<1>(sized[k]) > std::get<1>(last.back()) ? sized[k] : last.back());
    }
    bool has_moved = false;
    vector<double> keys(active_.size());
    for (auto [key, j] : ranks_) keys[j] = key;
    for (size_t j = 0; j < active_.size(); ++j) {
      const Run& run = runs_[active_[j]];
      bool has_trained = run.is_started && run.now_samples != 0.0;
      if (!run.held.empty() || run.told->total != kInf || has_trained) continue;
      size_t place = std::lower_bound(sized.begin(), sized.end(), run.admitted_s,
                                      [](const Start& start, double admitted_s) {
                                        return std::get<0>(start) < admitted_s;
                                      }) - sized.begin();
      if (!place) continue;
      auto [start_s, key, runner] = last[place - 1];
      keys[j] = larger(keys[j], key);
      wake_s_ = smaller(wake_s_, start_s + in_.forward_s);
      has_moved = true;
    }
    if (!has_moved) return;
    ranks_.clear();
    for (size_t j = 0; j < keys.size(); ++j) ranks_.emplace_back(keys[j], j);
    std::sort(ranks_.begin(), ranks_.end());
  }

  // gains.gains, Exact.solve and gains.objective_value
  void solve(bool is_weighted) {
    answer_.clear();
    if (demands_.empty()) return;
    int64_t largest = 0;
    for (const Demand& d : demands_) largest = std::max(largest, runs_[d.trainer].shape->max_nodes);
    size_t width = static_cast<size_t>(largest) + 1;
    double* gains = exact_.reset(demands_.size(), width);
    standing_.clear();
    for (size_t row = 0; row < demands_.size(); ++row) {
      fill_gains(demands_[row], is_weighted, gains + row * width);
      standing_.push_back(demands_[row].standing);
    }
    exact_.solve(pool_, standing_, answer_);
    Sum value(in_.compensated);
    for (size_t row = 0; row < demands_.size(); ++row) {
      const Demand& demand = demands_[row];
      if (!answer_[row] && !demand.current && !demand.without_zero) continue;
      value.add(demand.weight * gain(demand, answer_[row]));
    }
    row_.value = value.value();
    if (!std::isfinite(row_.value)) throw std::overflow_error("the value of an answer");
    for (size_t row = 0; row < demands_.size(); ++row) new_counts_[members_[row]] = answer_[row];
  }

  void fill_gains(const Demand& demand, bool is_weighted, double* gains) const {
    const Shape& shape = *runs_[demand.trainer].shape;
    int64_t standing = demand.standing, end = shape.max_nodes;
    int64_t first = demand.without_zero ? shape.min_nodes : 0;
    if (demand.without_zero) end = std::min(end, std::max(pool_, demand.current));
    double standing_value = demand.table[standing];
    double up = standing_value * demand.up_s, down = standing_value * demand.down_s;
    for (int64_t n = first; n <= end; ++n) {
      if (n && n < shape.min_nodes) continue;
      double gain = in_.forward_s != 0.0 ? demand.table[n] * in_.forward_s : 0.0;
      if (n != standing) gain -= n > standing ? up : down;
      gains[n] = is_weighted ? gain * demand.weight : gain;
    }
  }

  double gain(const Demand& demand, int64_t n) const {
    if (n == demand.current) return in_.forward_s * demand.at[n];
    double cost = 0.0, standing_value = demand.at[demand.standing];
    if (n > demand.standing) cost = standing_value * demand.up_s;
    if (n < demand.standing) cost = standing_value * demand.down_s;
    return in_.forward_s * demand.at[n] - cost;
  }

  // objectives.equal_share of the active trainers
  double equal_share() {
    vector<int64_t> largest;
    for (size_t i : active_) largest.push_back(runs_[i].shape->max_nodes);
    std::sort(largest.begin(), largest.end());
    double nodes_left = static_cast<double>(pool_);
    double trainers_left = static_cast<double>(largest.size());
    for (int64_t nodes : largest) {
      if (static_cast<double>(nodes) * trainers_left >= nodes_left) {
        return nodes_left / trainers_left;
      }
      nodes_left -= static_cast<double>(nodes);
      trainers_left -= 1;
    }
    return static_cast<double>(pool_);
  }

  static double equal_share_rate(const Shape& shape, double share) {
    const int64_t* nodes = shape.corner_nodes;
    const double* rates = shape.corner_rates;
    int64_t i = 0;
    while (i < shape.n_corners && static_cast<double>(nodes[i]) <= share) ++i;
    if (i == shape.n_corners) return rates[i - 1];
    return rates[i - 1] + (rates[i] - rates[i - 1]) *
                              (share - static_cast<double>(nodes[i - 1])) /
                              static_cast<double>(nodes[i] - nodes[i - 1]);
  }

  // objectives._scaled, with the tables of gains._values (numpy.interp) and Curve.at
  const Values& scaled(int64_t index, double unit) {
    Values& values = scaled_[index];
    if (values.unit == unit) return values;
    values.unit = unit;
    const Shape& shape = in_.shapes[index];
    int64_t last = shape.nodes[shape.n_points - 1];
    values.table.assign(last + 1, 0.0);
    values.at.assign(last + 1, 0.0);
    int64_t n0 = 0;
    double v0 = 0.0;
    for (int64_t k = 0; k < shape.n_points; ++k) {
      int64_t n1 = shape.nodes[k];
      double v1 = shape.value[k] / unit;
      if (!std::isfinite(v1)) throw std::overflow_error("a value curve");
      double slope = (v1 - v0) / static_cast<double>(n1 - n0);
      for (int64_t n = n0 + 1; n < n1; ++n) {
        double above = static_cast<double>(n - n0);
        values.table[n] = slope * above + v0;
        values.at[n] = v0 + (v1 - v0) * above / static_cast<double>(n1 - n0);
      }
      values.table[n1] = values.at[n1] = v1;
      n0 = n1;
      v0 = v1;
    }
    return values;
  }

  static int64_t largest_legal(const Shape& shape, int64_t nodes) {
    return nodes >= shape.min_nodes ? std::min(nodes, shape.max_nodes) : 0;
  }

  void decide_equal_shares() {
    int64_t trainers = static_cast<int64_t>(active_.size()), rest = pool_;
    if (!trainers) return;
    for (int64_t j = 0; j < trainers; ++j) {
      new_counts_[j] = largest_legal(*runs_[active_[j]].shape, pool_ / trainers);
      rest -= new_counts_[j];
    }
    for (int64_t j = 0; j < trainers; ++j) {
      int64_t count = largest_legal(*runs_[active_[j]].shape, new_counts_[j] + rest);
      rest -= count - new_counts_[j];
      new_counts_[j] = count;
    }
  }

  void decide_plain() {
    int64_t free = pool_;
    for (size_t j = 0; j < active_.size(); ++j) {
      const Run& run = runs_[active_[j]];
      if (run.nodes() == plain_size(run)) new_counts_[j] = run.nodes();
      free -= new_counts_[j];
    }
    for (size_t j = 0; j < active_.size() && free > 0; ++j) {
      int64_t size = plain_size(runs_[active_[j]]);
      if (!new_counts_[j] && size <= free) {
        new_counts_[j] = size;
        free -= size;
      }
    }
  }

  int64_t plain_size(const Run& run) const {
    int64_t size = largest_legal(*run.shape, in_.plain_nodes);
    return size ? size : run.shape->min_nodes;
  }

  // ----- the journal

  // ReplayWorld.totals
  void totals() {
    Sum samples(in_.compensated), preemption(in_.compensated), rescale(in_.compensated);
    for (size_t i : started_) {
      const Run& run = runs_[i];
      samples.add(smaller(run.now_samples, run.told->total));
      preemption.add(run.lost_to_preemption);
      rescale.add(run.lost_to_rescale);
    }
    last_.samples = done_samples_ + samples.value();
    last_.lost_to_preemption = done_lost_to_preemption_ + preemption.value();
    last_.lost_to_rescale = done_lost_to_rescale_ + rescale.value();
  }

  // Ledger.record
  void record(double at_s, double took_s) {
    took_s_.push_back(took_s);
    if (!in_.keep_rows) return;
    totals();
    row_.at_s = at_s;
    row_.took_s = took_s;
    row_.samples = last_.samples;
    row_.lost_to_preemption = last_.lost_to_preemption;
    row_.lost_to_rescale = last_.lost_to_rescale;
    row_.pool_nodes = pool_;
    Sum invested(in_.compensated);
    for (size_t j = 0; j < active_.size(); ++j) {
      size_t i = active_[j];
      const Run& run = runs_[i];
      int64_t n = new_counts_[j], held = run.nodes();
      if (row_.left) row_.taken_nodes += previous_[i] - held;
      if (n != held) invested.add(run.rate * (n > held ? run.told->up_s : run.told->down_s));
      if (n) counts_.push_back({static_cast<int32_t>(i), static_cast<int32_t>(n)});
      previous_[i] = n;
    }
    row_.invested = invested.value();
    if (in_.policy == kPriority || in_.policy == kOptimum) {
      for (int64_t n : answer_) answers_.push_back(static_cast<int32_t>(n));
    }
    row_.counts_end = static_cast<int64_t>(counts_.size());
    row_.answer_end = static_cast<int64_t>(answers_.size());
    rows_.push_back(row_);
  }

  // placement.place, and ReplayWorld.apply of the rescales: those of shrinking trainers first
  void place(double at_s) {
    for (size_t j = 0; j < active_.size(); ++j) {
      Run& run = runs_[active_[j]];
      if (new_counts_[j] >= run.nodes()) continue;
      begin_rescale(run, at_s);
      for (int64_t k = new_counts_[j]; k < run.nodes(); ++k) release(run.held[k]);
      run.held.resize(static_cast<size_t>(new_counts_[j]));
      end_rescale(run, active_[j], at_s, true);
    }
    size_t from = 0;
    for (size_t j = 0; j < active_.size(); ++j) {
      Run& run = runs_[active_[j]];
      int64_t more = new_counts_[j] - run.nodes();
      if (more <= 0) continue;
      begin_rescale(run, at_s);
      auto middle = static_cast<std::ptrdiff_t>(run.held.size());
      for (; more > 0; --more) {
        int32_t node = free_.take(from);
        owner_[node] = static_cast<int32_t>(active_[j]);
        run.held.push_back(node);
      }
      std::inplace_merge(run.held.begin(), run.held.begin() + middle, run.held.end());
      end_rescale(run, active_[j], at_s, false);
    }
  }

  // ReplayedTrainer.rescale, before and after the nodes change
  void begin_rescale(Run& run, double at_s) {
    run.settle(at_s);
    ++run.rescales;
    run.waited_s = run.longest_wait_s(at_s);
    if (std::isnan(run.started_s)) run.started_s = at_s;
  }

  void end_rescale(Run& run, size_t i, double at_s, bool shrinks) {
    run.stall(at_s, shrinks, !shrinks);
    run.bend();
    run.waits_since_s = run.held.empty() ? at_s : kNaN;
    run.sized_s = at_s;
    if (!run.is_started) {
      run.is_started = true;
      started_.push_back(i);
    }
    run.now_samples = run.samples_at(at_s);
  }

  // ReplayWorld._end
  void end() {
    now_s_ = in_.end_s;
    for (size_t i : started_) {
      Run& run = runs_[i];
      run.settle(in_.end_s);
      run.samples = run.now_samples = smaller(run.samples, run.told->total);
    }
    totals();
  }

  const Input& in_;
  FreeNodes free_;
  vector<int32_t> owner_;  // the trainer of each node, -1: none
  vector<char> in_pool_;
  vector<Run> runs_;
  vector<int64_t> previous_;  // Ledger._previous_counts
  vector<Values> scaled_;     // by shape
  vector<size_t> submitted_, active_, started_, hit_, members_;
  vector<char> is_hit_;
  vector<int64_t> new_counts_, standing_, answer_;
  vector<double> scratch_;
  vector<Demand> demands_;
  vector<std::pair<double, size_t>> ranks_;
  vector<std::pair<size_t, double>> chosen_;
  std::map<int64_t, int64_t> kind_left_;
  Exact exact_;
  Row row_{};
  double now_s_ = 0, wake_s_ = kInf;
  double done_samples_ = 0, done_lost_to_preemption_ = 0, done_lost_to_rescale_ = 0;
  int64_t next_change_ = -1, pool_ = 0, n_finished_ = 0, n_admitted_ = 0, peak_ = 0;
};

}  // namespace

// ---------------------------------------------------------------------------------------------

extern "C" {

int64_t bftrainer_engine_version() { return 2; }

// The SHA-256 of this file, as the builder has read it.
const char* bftrainer_engine_source() { return ENGINE_SOURCE; }

// The bytes of the structures that Python has as well.
void bftrainer_engine_bytes(int64_t* bytes) {
  bytes[0] = sizeof(Shape);
  bytes[1] = sizeof(TrainerIn);
  bytes[2] = sizeof(Input);
  bytes[3] = sizeof(Row);
  bytes[4] = sizeof(TrainerOut);
}

// Run a replay; return a handle, or null if the engine gives up: the core runs then.
void* bftrainer_replay(const Input* in) {
  try {
    auto* replay = new Replay(*in);
    replay->run();
    return replay;
  } catch (...) {
    return nullptr;
  }
}

// sizes: decisions, rows, counts, counts of answers, submitted trainers, held nodes
void bftrainer_sizes(const void* handle, int64_t* sizes) {
  const auto* replay = static_cast<const Replay*>(handle);
  sizes[0] = static_cast<int64_t>(replay->took_s_.size());
  sizes[1] = static_cast<int64_t>(replay->rows_.size());
  sizes[2] = static_cast<int64_t>(replay->counts_.size());
  sizes[3] = static_cast<int64_t>(replay->answers_.size());
  sizes[4] = replay->n_submitted();
  sizes[5] = static_cast<int64_t>(replay->held_.size());
}

void bftrainer_copy(const void* handle, double* took_s, Row* rows, Pair* counts, int32_t* answers,
                    TrainerOut* trainers, int32_t* held, double* totals) {
  const auto* replay = static_cast<const Replay*>(handle);
  std::copy(replay->took_s_.begin(), replay->took_s_.end(), took_s);
  std::copy(replay->rows_.begin(), replay->rows_.end(), rows);
  std::copy(replay->counts_.begin(), replay->counts_.end(), counts);
  std::copy(replay->answers_.begin(), replay->answers_.end(), answers);
  std::copy(replay->held_.begin(), replay->held_.end(), held);
  for (int64_t i = 0; i < replay->n_submitted(); ++i) {
    trainers[i] = replay->trainer(static_cast<size_t>(i));
    trainers[i].held_end = replay->held_ends_[static_cast<size_t>(i)];
  }
  totals[0] = replay->last_.samples;
  totals[1] = replay->last_.lost_to_preemption;
  totals[2] = replay->last_.lost_to_rescale;
}

void bftrainer_free(void* handle) { delete static_cast<Replay*>(handle); }

}  // extern "C"
