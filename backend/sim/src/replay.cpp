// The cores of the timing engine: the scalar unit issues in program order, each pipe takes its queue in
// order.
//
// Times follow from each other by maxima and sums, so a core needs no clock: what can be known is worked out
// at once. Only the end of a transfer with global memory, which depends on all cores, is left to the memory's
// clock; whatever waits for it goes on when that clock gets there.
#include "replay.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <functional>
#include <limits>
#include <queue>
#include <tuple>

#include "replay_signals.hpp"

namespace sim::replay {

namespace {

constexpr double never = std::numeric_limits<double>::infinity();

bool reads_memory(Path path) {
    return path == Path::GmToUb || path == Path::GmToL1 || path == Path::GmToL0a || path == Path::GmToL0b;
}
bool writes_memory(Path path) {
    return path == Path::UbToGm || path == Path::L1ToGm || path == Path::L0cToGm;
}

}  // namespace

struct CoreOutput {
    double begin, end;
    double busy[pipes];
};

struct Totals {
    double time;
    Traffic traffic;
    int64_t stuck;  // the first core that never ends, or -1
    int64_t at;     // its record
};

namespace {

// A transfer that is about to begin.
struct Start {
    double time;
    int32_t core, pipe;
    bool operator>(const Start& other) const {
        return std::tie(time, core, pipe) > std::tie(other.time, other.core, other.pipe);
    }
};

using Starts = std::priority_queue<Start, std::vector<Start>, std::greater<>>;

class Core {
  public:
    Core(int32_t index, const CoreInput& input, const Parameters& parameters,
         const std::vector<InstructionCost>& costs, Signals& signals, Starts& starts, CoreOutput& output)
        : index_(index),
          input_(input),
          of_(parameters),
          costs_(costs),
          signals_(signals),
          starts_(starts),
          output_(output) {}

    void begin(double time) {
        output_.begin = time;
        scalar_ = time + of_.start;
        output_.busy[0] += of_.start;
        started_ = true;
    }
    bool started() const { return started_; }
    bool ended() const { return ended_; }
    int64_t at() const { return next_; }
    double end() const { return output_.end; }
    // Works out all that can be known.
    void advance();
    // The transfer that is to begin on a pipe.
    Transfer transfer(int32_t pipe) const;
    void finish(const Done& done);

  private:
    struct Entry {
        int64_t record;
        double issued;
        int64_t after;  // Mmad: Fixpipes issued before; Fixpipe: Mmads
    };
    struct Queue {
        std::deque<Entry> entries;
        std::vector<double> ends;  // of the last ones
        int64_t issued = 0, done = 0;
        double time = 0;             // when the pipe is free
        double instruction_end = 0;  // of its last instruction
        bool under_way = false;      // a transfer with global memory
        double head = 0;             // when that came to the pipe's head
        double begins = 0;           // and its bytes began to move
        bool idle = false;
    };
    struct Flags {
        std::vector<double> times;
        size_t taken = 0;
    };
    struct Span {
        double start, end;
    };

    const Record& record(int64_t number) const { return input_.records[number]; }
    Flags& flags(const Record& of) { return flags_[(of.pipe * pipes + of.to) * 8 + (of.id & 7)]; }
    bool step_scalar();
    bool step_pipe(int32_t pipe);
    bool enqueue(int32_t pipe, double cost);
    bool drained(int32_t pipe) const {
        const Queue& queue = queues_[static_cast<size_t>(pipe)];
        return queue.entries.empty() && !queue.under_way;
    }
    void scalar(double cost) {
        scalar_ += cost;
        output_.busy[0] += cost;
    }
    double issue_cost(const Record& record) const;
    double cycles(const Record& record) const;
    bool instruction(Queue& queue, int32_t pipe, const Entry& entry);
    void complete(Queue& queue, double end);
    void note(int64_t number, double start, double end) {
        if (!input_.starts) return;
        input_.starts[number] = start;
        input_.ends[number] = end;
    }

    int32_t index_;
    const CoreInput& input_;
    const Parameters& of_;
    const std::vector<InstructionCost>& costs_;
    Signals& signals_;
    Starts& starts_;
    CoreOutput& output_;
    int64_t next_ = 0;
    double scalar_ = 0;
    bool started_ = false, ended_ = false;
    bool at_barrier_ = false;
    size_t generation_ = 0;
    std::array<Queue, pipes> queues_;
    std::array<Flags, static_cast<size_t>(pipes * pipes * 8)> flags_;
    std::vector<Span> mmads_, fixpipes_;  // ended, of those with the unit flag
    int64_t mmads_issued_ = 0, fixpipes_issued_ = 0;
};

double Core::issue_cost(const Record& of) const {
    switch (static_cast<Pipe>(of.pipe)) {
        case Pipe::V:
            return of_.issue_vector;
        case Pipe::MTE2:
        case Pipe::MTE3:
            return of_.issue_copy + (of.work.l2 ? 0.0 : of_.issue_bypass);
        default:
            return of_.issue_cube;
    }
}

double Core::cycles(const Record& of) const {
    const Work& work = of.work;
    if (static_cast<Pipe>(of.pipe) == Pipe::M) {
        const double* step = of_.steps[std::min<int>(work.dtype, dtypes - 1)];
        const auto steps = [](uint32_t size, double by) { return by > 0 ? std::ceil(size / by) : 0.0; };
        return of_.mmad_head + steps(work.m, step[0]) * steps(work.n, step[1]) * steps(work.k, step[2]);
    }
    if (work.path != Path::None) {
        const Parameters::Copy& copy = of_.copies[static_cast<int>(work.path)];
        return copy.head + work.repeats * (copy.piece + (copy.rate > 0 ? work.bytes / copy.rate : 0.0));
    }
    const InstructionCost& cost = costs_[of.name < costs_.size() ? of.name : 0];
    const int wide = work.bytes <= 2 ? 0 : work.bytes <= 4 ? 1 : 2;
    return cost.head + work.repeats * cost.repeat[wide] + work.m * of_.conflict;
}

bool Core::enqueue(int32_t pipe, double cost) {
    Queue& queue = queues_[static_cast<size_t>(pipe)];
    const auto depth = static_cast<int64_t>(of_.queue_depth);
    if (queue.ends.empty()) queue.ends.assign(static_cast<size_t>(depth), 0.0);
    if (queue.issued - queue.done >= depth) return false;
    scalar_ = std::max(scalar_, queue.ends[static_cast<size_t>(queue.issued % depth)]);
    scalar(cost);
    const Record& of = record(next_);
    int64_t after = 0;
    if (of.work.unit_flag && of.event == Event::Instruction) {
        after = pipe == static_cast<int32_t>(Pipe::M) ? fixpipes_issued_ : mmads_issued_;
        ++(pipe == static_cast<int32_t>(Pipe::M) ? mmads_issued_ : fixpipes_issued_);
    }
    queue.entries.push_back({next_++, scalar_, after});
    ++queue.issued;
    return true;
}

bool Core::step_scalar() {
    if (next_ >= input_.count) {
        for (int32_t pipe = 1; pipe < pipes; ++pipe)
            if (!drained(pipe)) return false;
        double end = scalar_;
        for (const Queue& queue : queues_) end = std::max(end, queue.time);
        output_.end = end;
        ended_ = true;
        return false;
    }
    const Record& of = record(next_);
    const auto pipe = static_cast<int32_t>(of.pipe);
    const bool on_pipe = pipe > 0 && pipe < pipes;
    const auto wait_for_all = [&] {
        for (int32_t other = 1; other < pipes; ++other)
            if (!drained(other)) return false;
        for (const Queue& queue : queues_) scalar_ = std::max(scalar_, queue.time);
        return true;
    };
    switch (of.event) {
        case Event::Instruction:
            if (on_pipe) return enqueue(pipe, issue_cost(of));
            note(next_, scalar_, scalar_ + of_.issue_instruction);
            scalar(of_.issue_instruction);
            break;
        case Event::SetFlag:
            if (on_pipe) return enqueue(pipe, of_.issue_flag);
            scalar(of_.issue_flag);
            flags(of).times.push_back(scalar_);
            break;
        case Event::WaitFlag: {
            if (of.to > 0 && of.to < pipes) return enqueue(of.to, of_.issue_flag);
            Flags& set = flags(of);
            if (set.taken == set.times.size()) return false;
            scalar(of_.issue_flag);
            scalar_ = std::max(scalar_, set.times[set.taken++]);
            break;
        }
        case Event::PipeBarrier:
            if (on_pipe) return enqueue(pipe, of_.issue_flag);
            if (pipe != 0 && !wait_for_all()) return false;
            scalar(of_.issue_flag);
            break;
        case Event::ScalarWait:
            if (on_pipe) {
                if (!drained(pipe)) return false;
                scalar_ = std::max(scalar_, queues_[static_cast<size_t>(pipe)].time);
            }
            scalar(of_.wait);
            break;
        case Event::CoreSet:
            if (on_pipe) return enqueue(pipe, of_.issue_flag);
            if (pipe != 0 && !wait_for_all()) return false;
            scalar(of_.issue_flag);
            signals_.set(index_, of.work.m, of.id, scalar_);
            break;
        case Event::CoreWait: {
            if (on_pipe) return enqueue(pipe, of_.issue_flag);
            const double time = signals_.take(index_, of.id);
            if (time == never) return false;
            scalar_ = std::max(scalar_, time);
            scalar(of_.issue_flag);
            break;
        }
        case Event::SyncAll: {
            const bool all = of.work.m != 0;
            if (!at_barrier_) {
                if (!wait_for_all()) return false;
                generation_ = signals_.arrive(index_, all, scalar_);
                at_barrier_ = true;
            }
            const double time = signals_.released(index_, all, generation_);
            if (time == never) return false;
            at_barrier_ = false;
            scalar_ = time + of_.sync_all;
            break;
        }
        case Event::Scalar:
            scalar(of.work.repeats * of_.issue_instruction);
            break;
    }
    ++next_;
    return true;
}

void Core::complete(Queue& queue, double end) {
    queue.time = end;
    queue.ends[static_cast<size_t>(queue.done % static_cast<int64_t>(queue.ends.size()))] = end;
    ++queue.done;
    queue.entries.pop_front();
}

bool Core::instruction(Queue& queue, int32_t pipe, const Entry& entry) {
    const Record& of = record(entry.record);
    const Work& work = of.work;
    const double head = std::max(queue.time, entry.issued);
    double begins = head;
    const bool mmad = pipe == static_cast<int32_t>(Pipe::M);
    if (work.unit_flag && entry.after > 0) {
        // What is in L0C passes from one to the other piece by piece: they run together, neither ends before
        // the other may.
        const auto& others = mmad ? fixpipes_ : mmads_;
        if (static_cast<int64_t>(others.size()) < entry.after) return false;
        begins = std::max(begins, others[static_cast<size_t>(entry.after - 1)].start);
    }
    const bool reads = reads_memory(work.path), writes = writes_memory(work.path);
    if ((reads || writes) && work.repeats && work.bytes) {
        const Parameters::Copy& copy = of_.copies[static_cast<int>(work.path)];
        queue.under_way = true;
        queue.head = head;
        queue.idle = head > queue.instruction_end;
        queue.begins = begins + copy.head + (queue.idle ? copy.latency : 0.0);
        starts_.push({queue.begins, index_, pipe});
        return true;
    }
    const double takes = cycles(of);
    double end = begins + takes;
    if (work.unit_flag && mmad && entry.after > 0)
        end = std::max(end, fixpipes_[static_cast<size_t>(entry.after - 1)].end);
    if (work.unit_flag && mmad) mmads_.push_back({begins, end});
    output_.busy[pipe] += takes;
    queue.instruction_end = end;
    note(entry.record, begins, end);
    complete(queue, end);
    return true;
}

bool Core::step_pipe(int32_t pipe) {
    Queue& queue = queues_[static_cast<size_t>(pipe)];
    if (queue.under_way || queue.entries.empty()) return false;
    const Entry entry = queue.entries.front();
    const Record& of = record(entry.record);
    const double head = std::max(queue.time, entry.issued);
    switch (of.event) {
        case Event::Instruction:
            return instruction(queue, pipe, entry);
        case Event::SetFlag:
            flags(of).times.push_back(head);
            break;
        case Event::WaitFlag: {
            Flags& set = flags(of);
            if (set.taken == set.times.size()) return false;
            const double time = std::max(head, set.times[set.taken++]);
            if (set.taken > 64) {
                set.times.erase(set.times.begin(),
                                set.times.begin() + static_cast<std::ptrdiff_t>(set.taken));
                set.taken = 0;
            }
            complete(queue, time);
            return true;
        }
        case Event::CoreSet:
            signals_.set(index_, of.work.m, of.id, head);
            break;
        case Event::CoreWait: {
            const double time = signals_.take(index_, of.id);
            if (time == never) return false;
            complete(queue, std::max(head, time));
            return true;
        }
        default:
            break;
    }
    complete(queue, head);
    return true;
}

void Core::advance() {
    if (!started_ || ended_) return;
    bool moved = true;
    while (moved) {
        moved = false;
        while (step_scalar()) moved = true;
        if (ended_) return;
        for (int32_t pipe = 1; pipe < pipes; ++pipe)
            while (step_pipe(pipe)) moved = true;
    }
}

Transfer Core::transfer(int32_t pipe) const {
    const Queue& queue = queues_[static_cast<size_t>(pipe)];
    const Work& work = record(queue.entries.front().record).work;
    const Parameters::Copy& copy = of_.copies[static_cast<int>(work.path)];
    Transfer result{};
    result.core = index_;
    result.pipe = pipe;
    result.writes = writes_memory(work.path);
    result.bypass = !work.l2;
    result.idle = queue.idle;
    result.address = work.address;
    result.stride = work.repeats > 1 ? work.stride : work.bytes;
    result.pieces = work.repeats;
    result.bytes = work.bytes;
    result.piece_cycles = work.repeats * copy.piece;
    result.rate = copy.rate;
    // A piece that ends within a block of the written granularity is read, changed and written.
    if (result.writes && work.path == Path::UbToGm && work.bytes % static_cast<uint32_t>(of_.write_aligned)) {
        const double slow = std::min<double>(work.bytes, of_.write_span);
        result.piece_cycles += work.repeats * slow * (1 / of_.write_rate - 1 / copy.rate);
    }
    return result;
}

void Core::finish(const Done& done) {
    Queue& queue = queues_[static_cast<size_t>(done.pipe)];
    const Entry entry = queue.entries.front();
    const Work& work = record(entry.record).work;
    queue.under_way = false;
    double end = done.end;
    if (work.unit_flag) {
        if (entry.after > 0) end = std::max(end, mmads_[static_cast<size_t>(entry.after - 1)].end);
        fixpipes_.push_back({queue.begins, end});
    }
    const double start = queue.head + done.held;
    output_.busy[done.pipe] += end - start;
    queue.instruction_end = end;
    note(entry.record, start, end);
    complete(queue, end);
}

}  // namespace

namespace {

// One launch of the kernel.
Totals run(const Parameters& parameters, const std::vector<InstructionCost>& costs,
           const std::vector<CoreInput>& inputs, std::vector<CoreOutput>& outputs, Cache& cache) {
    outputs.assign(inputs.size(), CoreOutput{});
    Signals signals(inputs);
    Starts starts;
    Memory memory(parameters, cache);
    std::vector<Core> cores;
    cores.reserve(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i)
        cores.emplace_back(static_cast<int32_t>(i), inputs[i], parameters, costs, signals, starts,
                           outputs[i]);
    // Blocks that are more than the chip's cores wait for one to be free.
    std::array<std::vector<size_t>, 2> waiting;
    std::vector<size_t> first;
    std::array<size_t, 2> begun{0, 0};
    for (size_t i = 0; i < inputs.size(); ++i) {
        const auto kind = static_cast<size_t>(inputs[i].kind);
        const bool free = begun[kind]++ < static_cast<size_t>(parameters.cores[kind]);
        (free ? first : waiting[kind]).push_back(i);
    }
    for (const size_t i : first)
        cores[i].begin(parameters.launch + parameters.launch_core * static_cast<double>(first.size() - 1));
    std::array<size_t, 2> taken{0, 0};
    std::vector<size_t> ready;
    std::vector<bool> counted(cores.size(), false);
    const auto advance = [&](size_t i) {
        ready.push_back(i);
        while (!ready.empty()) {
            Core& core = cores[ready.back()];
            const size_t number = ready.back();
            ready.pop_back();
            signals.changed = false;
            core.advance();
            if (core.ended() && !counted[number]) {
                counted[number] = true;
                const auto kind = static_cast<size_t>(inputs[number].kind);
                if (taken[kind] < waiting[kind].size()) {
                    const size_t following = waiting[kind][taken[kind]++];
                    cores[following].begin(core.end() + parameters.launch_core);
                    ready.push_back(following);
                }
            }
            if (signals.changed)
                for (size_t other = 0; other < cores.size(); ++other)
                    if (other != number && cores[other].started() && !cores[other].ended())
                        ready.push_back(other);
        }
    };
    for (size_t i = 0; i < cores.size(); ++i) advance(i);
    std::vector<Done> done;
    while (true) {
        const double start = starts.empty() ? never : starts.top().time;
        const double happens = memory.next();
        if (start == never && happens == never) break;
        done.clear();
        if (start <= happens) {
            memory.advance(start, done);
            while (!starts.empty() && starts.top().time <= start) {
                const Start begins = starts.top();
                starts.pop();
                memory.begin(cores[static_cast<size_t>(begins.core)].transfer(begins.pipe));
            }
        } else {
            memory.advance(happens, done);
        }
        for (const Done& ended : done) cores[static_cast<size_t>(ended.core)].finish(ended);
        for (const Done& ended : done) advance(static_cast<size_t>(ended.core));
    }
    Totals totals{0, memory.traffic(), -1, 0};
    for (size_t i = 0; i < cores.size(); ++i) {
        if (!cores[i].ended() && totals.stuck < 0) {
            totals.stuck = static_cast<int64_t>(i);
            totals.at = cores[i].at();
        }
        totals.time = std::max(totals.time, outputs[i].end);
    }
    return totals;
}

// How many lines of L2 there are to follow for one that is followed.
uint32_t sampling_for(const Parameters& parameters, const std::vector<CoreInput>& inputs) {
    constexpr double followed = 1e6;
    double lines = 0;
    for (const CoreInput& input : inputs)
        for (int64_t i = 0; i < input.count; ++i) {
            const Work& work = input.records[i].work;
            if (reads_memory(work.path) || writes_memory(work.path))
                lines += work.repeats * (1.0 + work.bytes / parameters.line);
        }
    uint32_t sampling = 1;
    while (lines / sampling > followed && sampling < 64) sampling *= 2;
    return sampling;
}

}  // namespace

}  // namespace sim::replay

// Replays a launch, `launches` times one after another: the first ones leave L2 as the last finds it. 0, or 1
// where a core never ends.
extern "C" int sim_replay(const sim::replay::Parameters* parameters,
                          const sim::replay::InstructionCost* costs, int64_t names,
                          const sim::replay::CoreInput* inputs, int64_t cores, int32_t launches,
                          sim::replay::CoreOutput* outputs, sim::replay::Totals* totals) {
    using namespace sim::replay;
    const std::vector<InstructionCost> table(costs, costs + names);
    const std::vector<CoreInput> input(inputs, inputs + cores);
    std::vector<CoreOutput> output;
    Cache cache(parameters->l2_bytes, static_cast<uint32_t>(parameters->line),
                static_cast<uint32_t>(parameters->sector), sampling_for(*parameters, input));
    for (int32_t launch = 0; launch < launches; ++launch) {
        *totals = run(*parameters, table, input, output, cache);
        if (totals->stuck >= 0) break;
    }
    std::copy(output.begin(), output.end(), outputs);
    return totals->stuck >= 0 ? 1 : 0;
}
