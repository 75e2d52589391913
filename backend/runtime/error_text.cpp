// ACL's codes in plain words. Their names are those of the public error code list; a hundred thousand tells
// whose fault it is (1: the caller's, 2: resources, 5: the device or its software), a thousand the part that
// found it.
#include <algorithm>
#include <iterator>

#include "acl.hpp"

namespace pyasc::npu {

namespace {

enum Kind : uint8_t {
    call,    // the call was refused; what is in the lanes goes on
    memory,  // not enough memory
    work,    // work that was in a lane failed; the device goes on
    lost     // nothing runs there before the device is reset
};

struct Entry {
    int code;
    Kind kind;
    const char* text;
};

// In order of their codes.
constexpr Entry entries[] = {
    {code::closed, call, "a device that was shut down, or is being reset"},
    {code::hung, work, "the device did not finish its work in time"},
    {code::forked, call, "this process was forked from one that used the device; start processes with spawn"},
    {code::no_function, call, "this toolkit is too old: it lacks a function that is needed"},
    {code::no_library, call, "the library cannot be loaded"},
    {100000, call, "a parameter is not valid"},
    {100001, call, "ACL is not initialised"},
    {100002, call, "ACL is initialised already"},
    {100003, call, "a file of the toolkit cannot be used"},
    {100039, call, "the library is the toolkit's stub for linking, not the one for running"},
    {107000, call, "a parameter is not valid"},
    {107001, call, "there is no device of that number"},
    {107002, call, "no context is current in this thread"},
    // What was in it is lost with it: its lane needs another.
    {107003, work, "the stream belongs to another context, or was destroyed"},
    {107006, call, "an event has no time"},
    {107007, call, "two events are in the wrong order"},
    {107008, call, "an address is not aligned"},
    {107016, call, "memory of the wrong kind"},
    {107017, call, "a handle is not valid, or was destroyed"},
    {107018, call, "memory of the wrong kind"},
    {107019, work, "waiting took too long"},
    {107020, work, "a task ran for too long"},
    {107022, work, "the device is giving up its tasks"},
    {107023, work, "the stream is giving up its tasks"},
    {107044, call, "the kernel is not in the binary"},
    {148049, call, "ASCEND_OPP_PATH is not set, or is not right"},
    {200000, memory, "out of memory"},
    {200001, call, "this toolkit or chip does not have that function"},
    {200002, call, "there is no such device"},
    {200003, call, "an address is not aligned"},
    {200004, call, "a stream or context does not match"},
    {200005, call, "a handle is not valid, or was destroyed"},
    {200006, call, "this chip does not support that"},
    {207000, call, "this chip or driver does not support that"},
    {207001, memory, "out of memory"},
    {207002, call, "memory could not be freed"},
    {207003, work, "a value overflowed on an AI core"},
    {207004, call, "there is no device"},
    {207005, call, "the driver is out of resources"},
    {207006, call, "this user may not use the device; is it in the group of the driver's files?"},
    {207007, call, "out of events"},
    {207008, call, "out of streams"},
    {207012, call, "a limit of the driver is exceeded"},
    {207015, call, "initialised twice"},
    {207016, work, "a value overflowed on a vector core"},
    {207017, work, "a value overflowed"},
    {207018, memory, "the device is out of memory"},
    {207020, call, "the driver did not answer in time"},
    {500000, call, "an unknown error within ACL"},
    {500001, call, "an error within ACL"},
    {500003, call, "an error of the runtime"},
    {500004, call, "an error of the driver"},
    {507000, call, "an error within the runtime"},
    // The task scheduler is what takes work from streams: without it none of them moves again.
    {507001, lost, "an error within the device's task scheduler"},
    {507002, call, "the stream is full"},
    {507008, call, "the chip is not known to this toolkit"},
    {507009, call, "the device does not know that kind of task"},
    {507010, lost, "the device's task scheduler does not answer"},
    {507011, work, "execution failed"},
    {507012, work, "the device did not report in time"},
    {507013, work, "a copy failed on the device"},
    {507014, work, "a kernel ran for too long on the AI cores"},
    {507015, work, "a kernel met an exception on an AI core"},
    {507016, work, "a kernel trapped on an AI core"},
    {507017, work, "a kernel ran for too long on the device's CPU"},
    {507018, work, "a kernel met an exception on the device's CPU"},
    {507024, call, "the kernel is being unloaded"},
    {507027, call, "the kernel is not known"},
    {507028, call, "a kernel of that name is loaded already"},
    {507033, lost, "the device could not be started"},
    {507034, work, "a kernel ran for too long on the vector cores"},
    {507035, work, "a kernel met an exception on a vector core"},
    {507036, work, "a kernel trapped on a vector core"},
    {507042, work, "a kernel read past the end of its memory on an AI core"},
    {507043, work, "a kernel wrote past the end of its memory on an AI core"},
    {507044, work, "a kernel read past the end of its memory on a vector core"},
    {507045, work, "a kernel wrote past the end of its memory on a vector core"},
    {507046, work, "waiting for the stream took too long"},
    {507047, work, "waiting for the event took too long"},
    {507048, work, "a mixed kernel ran for too long"},
    {507049, work, "a mixed kernel met an exception"},
    {507050, work, "a mixed kernel trapped"},
    // Memory errors that hardware could not correct: what is in memory cannot be trusted before a repair or
    // reset.
    {507053, lost, "the device's memory has an error that cannot be corrected"},
    {507054, lost, "the device's memory has several wrong bits"},
    {507055, lost, "memory of another device may have an error that cannot be corrected"},
    {507056, work, "the link between two devices was broken"},
    {507057, work, "another device's memory could not be reached, or its end was passed"},
    {507899, call, "an error within the driver"},
    {507900, call, "an error of the device's CPU"},
    // The session between host and device is gone, and every handle with it.
    {507901, lost, "the connection to the device is broken"},
};

const Entry* find(int code) {
    const Entry* place = std::lower_bound(std::begin(entries), std::end(entries), code,
                                          [](const Entry& entry, int value) { return entry.code < value; });
    return place != std::end(entries) && place->code == code ? place : nullptr;
}

bool is(int code, Kind kind) {
    const Entry* entry = find(code);
    return entry && entry->kind == kind;
}

}  // namespace

std::string error_text(int code) {
    const Entry* entry = find(code);
    return entry ? entry->text : "";
}

bool out_of_memory(int code) { return is(code, memory); }
bool of_work(int code) { return is(code, work) || is(code, lost); }
bool loses_device(int code) { return is(code, lost); }

}  // namespace pyasc::npu
