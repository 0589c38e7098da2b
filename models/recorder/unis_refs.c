// unis-refs: a Valgrind tool that writes which cache lines a DPDK program touches while it works on
// packets, and nothing of its start, its polling and its ports.
//
// Lackey, which comes with Valgrind, writes a line of text for each reference of the whole program:
// a function's start alone, in which DPDK loads all its drivers, is 230 million lines, written one
// by one. This tool looks only while the function that is named is on the stack, and writes two or
// three bytes for each reference that a cache could tell from the one before.
// models/cache/recording.h has the format.
//
// Valgrind is under the GPL, version 2 or later, and so is the program that is linked with its
// core; it is run as a process and is part of no other program of UNiS. This source is under UNiS's
// licence.
#include "models/cache/recording_format.h"
#include "models/recorder/mbuf_layout.h"
#include "pub_tool_basics.h"  // the others need it
#include "pub_tool_debuginfo.h"
#include "pub_tool_guest.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_machine.h"
#include "pub_tool_options.h"
#include "pub_tool_seqmatch.h"
#include "pub_tool_threadstate.h"
#include "pub_tool_tooliface.h"
#include "pub_tool_vki.h"

enum {
  kMaxBurst = 512,
  kLongestPacket = 1 << 17,  // bytes of mbuf and buffer
  kBufferBytes = 1 << 16,
  kLongestRecord = 64,
};

typedef struct {
  Addr begin, end;  // of the packet's mbuf and buffer, in bytes
  ULong line;       // where the recording says that it begins
} Packet;

// What packets are given for addresses: far from what a process has.
static const ULong kFirstBufferLine = 0x700000000000ULL >> kUnisLineBits;

static const HChar* option_out = NULL;
static const HChar* option_entry = "*::Process(*";
static Int option_buffers = 1024;
static Long option_packets = 0;

static Int out = -1;
static UChar buffer[kBufferBytes];
static Int filled = 0;

static struct {
  Bool active;
  ThreadId thread;
  Addr stack;  // at the entry of the function: it has ended when the stack is above
  ULong instructions, references;
  UInt packets;
} burst;
static Packet packets[kMaxBurst];  // by address
static ULong lines_per_buffer = 0;
static ULong arrivals = 0;
static ULong previous_line = 0;
static unis_filter filter;

static void Fail(const HChar* sentence) {
  VG_(umsg)("unis-refs: %s\n", sentence);
  VG_(exit)(1);
}

static void Flush(void) {
  Int done = 0;
  while (done < filled) {
    const Int wrote = VG_(write)(out, buffer + done, filled - done);
    if (wrote <= 0) Fail("the recording cannot be written: is the disk full?");
    done += wrote;
  }
  filled = 0;
}

static void PutVarint(ULong value) {
  while (value >= 0x80) {
    buffer[filled++] = (UChar)(value | 0x80);
    value >>= 7;
  }
  buffer[filled++] = (UChar)value;
}

static void PutLine(enum unis_record kind, ULong line) {
  const Long step = (Long)(line - previous_line);
  previous_line = line;
  const ULong folded = ((ULong)step << 1) ^ (ULong)(step >> 63);
  PutVarint(folded << 2 | (ULong)kind);
}

static void MakeRoom(void) {
  if (filled > kBufferBytes - kLongestRecord) Flush();
}

// Lines of packets are named anew: the k-th packet lies in buffer k mod --buffers, as in the ring
// of a device, wherever the port that it came from has put it.
static ULong LineOf(Addr address) {
  UInt low = 0, high = burst.packets;
  while (low < high) {  // the first packet that ends behind it
    const UInt middle = (low + high) / 2;
    if (packets[middle].end <= address) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == burst.packets || address < packets[low].begin) return address >> kUnisLineBits;
  return packets[low].line + ((address >> kUnisLineBits) - (packets[low].begin >> kUnisLineBits));
}

static void Touch(ULong line, Bool store) {
  if (unis_filter_take(&filter, line, store)) return;
  MakeRoom();
  PutLine(store ? kUnisStore : kUnisLoad, line);
}

static void Arrive(Packet* packet, Addr mbuf) {
  packet->begin = mbuf;
  packet->end = mbuf + kMbufBytes;
  const Addr buffer_end = MbufBufferAddress(mbuf) + MbufBufferLength(mbuf);
  // A buffer that does not follow its mbuf (external memory) keeps its own addresses.
  if (buffer_end > packet->end && buffer_end - mbuf < kLongestPacket) packet->end = buffer_end;
  if (lines_per_buffer == 0) lines_per_buffer = ((packet->end - mbuf) >> kUnisLineBits) + 1;
  if (((packet->end - 1) >> kUnisLineBits) - (mbuf >> kUnisLineBits) >= lines_per_buffer) {
    Fail(
        "a packet's buffer is larger than the first one's, and would overlap the next; have all "
        "packets in buffers of one size");
  }
  packet->line = kFirstBufferLine + (arrivals++ % (ULong)option_buffers) * lines_per_buffer;

  const Addr data = MbufBufferAddress(mbuf) + MbufDataOffset(mbuf);
  const ULong length = MbufDataLength(mbuf);
  // What lies elsewhere has not been given the lines of a buffer, which the device could write.
  const Bool inside = length > 0 && data >= packet->begin && data + length <= packet->end;
  const ULong first = inside ? (data >> kUnisLineBits) - (mbuf >> kUnisLineBits) : 0;
  const ULong lines =
      inside ? ((data + length - 1) >> kUnisLineBits) - (data >> kUnisLineBits) + 1 : 0;
  MakeRoom();
  PutLine(kUnisArrival, packet->line);
  PutVarint(first);
  PutVarint(lines);
  // The driver has written the mbuf's first line; the device has written the data behind its back.
  unis_filter_take(&filter, packet->line, True);
  for (ULong i = 0; i < lines; ++i) unis_filter_forget(&filter, packet->line + first + i);
}

static VG_REGPARM(3) void OnEntry(Addr stack, Addr mbufs, UWord count) {
  if (burst.active || (option_packets > 0 && arrivals >= (ULong)option_packets)) return;
  count &= 0xffff;
  if (count == 0 || count > kMaxBurst) return;
  burst.active = True;
  burst.thread = VG_(get_running_tid)();
  burst.stack = stack;
  burst.instructions = burst.references = 0;
  burst.packets = 0;
  for (UWord i = 0; i < count; ++i) {
    Packet packet;
    Arrive(&packet, ((Addr*)mbufs)[i]);
    UInt at = burst.packets++;
    for (; at > 0 && packets[at - 1].begin > packet.begin; --at) packets[at] = packets[at - 1];
    packets[at] = packet;
  }
}

static VG_REGPARM(1) void OnReturn(Addr stack) {
  if (!burst.active || stack <= burst.stack || burst.thread != VG_(get_running_tid)()) return;
  burst.active = False;
  MakeRoom();
  PutVarint((ULong)burst.packets << 2 | kUnisBurstEnd);
  PutVarint(burst.instructions);
  PutVarint(burst.references);
}

static void Reference(Addr address, UWord size, Bool store) {
  ++burst.references;
  Touch(LineOf(address), store);
  const Addr last = address + size - 1;
  if (last >> kUnisLineBits != address >> kUnisLineBits) Touch(LineOf(last), store);
}

static Bool Watched(void) { return burst.active && burst.thread == VG_(get_running_tid)(); }

static VG_REGPARM(2) void OnLoad(Addr address, UWord size) {
  if (Watched()) Reference(address, size, False);
}

static VG_REGPARM(2) void OnStore(Addr address, UWord size) {
  if (Watched()) Reference(address, size, True);
}

static VG_REGPARM(1) void OnInstructions(UWord count) {
  if (Watched()) burst.instructions += count;
}

// --- instrumentation
// -------------------------------------------------------------------------------

typedef struct {
  IRSB* block;
  VexGuestLayout const* layout;
  IRType word;
  UWord instructions;  // since the last that were counted
} Maker;

static IRExpr* Register(Maker* maker, Int offset) {
  const IRTemp temp = newIRTemp(maker->block->tyenv, maker->word);
  addStmtToIRSB(maker->block, IRStmt_WrTmp(temp, IRExpr_Get(offset, maker->word)));
  return IRExpr_RdTmp(temp);
}

static void Call(Maker* maker, Int registers, const HChar* name, void* helper, IRExpr** arguments,
                 IRExpr* guard) {
  IRDirty* call = unsafeIRDirty_0_N(registers, name, VG_(fnptr_to_fnentry)(helper), arguments);
  if (guard != NULL) call->guard = guard;
  addStmtToIRSB(maker->block, IRStmt_Dirty(call));
}

static void Access(Maker* maker, IRExpr* address, Int size, Bool store, IRExpr* guard) {
  Call(maker, 2, store ? "OnStore" : "OnLoad", store ? (void*)OnStore : (void*)OnLoad,
       mkIRExprVec_2(address, mkIRExpr_HWord((HWord)size)), guard);
}

static void CountInstructions(Maker* maker) {
  if (maker->instructions == 0) return;
  Call(maker, 1, "OnInstructions", (void*)OnInstructions,
       mkIRExprVec_1(mkIRExpr_HWord(maker->instructions)), NULL);
  maker->instructions = 0;
}

static void AtInstruction(Maker* maker, Addr address) {
  const HChar* name;
  if (VG_(get_fnname_if_entry)(VG_(current_DiEpoch)(), address, &name) &&
      VG_(string_match)(option_entry, name)) {
    CountInstructions(maker);
    // Arguments of a member: this, packets, count.
    IRExpr* stack = Register(maker, maker->layout->offset_SP);
    IRExpr* mbufs = Register(maker, offsetof(VexGuestArchState, guest_RSI));
    IRExpr* count = Register(maker, offsetof(VexGuestArchState, guest_RDX));
    Call(maker, 3, "OnEntry", (void*)OnEntry, mkIRExprVec_3(stack, mbufs, count), NULL);
  }
  ++maker->instructions;
}

// What a statement reads and writes. CAS and dirty helpers do both.
static void AtStatement(Maker* maker, IRStmt* statement) {
  IRTypeEnv* types = maker->block->tyenv;
  switch (statement->tag) {
    case Ist_WrTmp: {
      IRExpr* from = statement->Ist.WrTmp.data;
      if (from->tag == Iex_Load) {
        Access(maker, from->Iex.Load.addr, sizeofIRType(from->Iex.Load.ty), False, NULL);
      }
      break;
    }
    case Ist_Store:
      Access(maker, statement->Ist.Store.addr,
             sizeofIRType(typeOfIRExpr(types, statement->Ist.Store.data)), True, NULL);
      break;
    case Ist_StoreG: {
      IRStoreG* store = statement->Ist.StoreG.details;
      Access(maker, store->addr, sizeofIRType(typeOfIRExpr(types, store->data)), True,
             store->guard);
      break;
    }
    case Ist_LoadG: {
      IRLoadG* load = statement->Ist.LoadG.details;
      IRType type, wide;
      typeOfIRLoadGOp(load->cvt, &wide, &type);
      Access(maker, load->addr, sizeofIRType(type), False, load->guard);
      break;
    }
    case Ist_CAS: {
      IRCAS* cas = statement->Ist.CAS.details;
      const Int size =
          sizeofIRType(typeOfIRExpr(types, cas->dataLo)) * (cas->dataHi == NULL ? 1 : 2);
      Access(maker, cas->addr, size, True, NULL);
      break;
    }
    case Ist_Dirty: {
      IRDirty* dirty = statement->Ist.Dirty.details;
      if (dirty->mFx == Ifx_None) break;
      Access(maker, dirty->mAddr, dirty->mSize, dirty->mFx != Ifx_Read, dirty->guard);
      break;
    }
    default:
      break;
  }
}

static IRSB* Instrument(VgCallbackClosure* closure, IRSB* from, const VexGuestLayout* layout,
                        const VexGuestExtents* extents, const VexArchInfo* arch, IRType guest_word,
                        IRType host_word) {
  (void)closure, (void)extents, (void)arch, (void)host_word;
  Maker maker = {deepCopyIRSBExceptStmts(from), layout, guest_word, 0};
  Int i = 0;
  for (; i < from->stmts_used && from->stmts[i]->tag != Ist_IMark; ++i) {
    addStmtToIRSB(maker.block, from->stmts[i]);
  }
  for (; i < from->stmts_used; ++i) {
    IRStmt* statement = from->stmts[i];
    if (statement == NULL || statement->tag == Ist_NoOp) continue;
    if (statement->tag == Ist_Exit) CountInstructions(&maker);
    if (statement->tag == Ist_IMark) {
      addStmtToIRSB(maker.block, statement);
      AtInstruction(&maker, statement->Ist.IMark.addr);
      continue;
    }
    AtStatement(&maker, statement);
    addStmtToIRSB(maker.block, statement);
  }
  CountInstructions(&maker);
  if (from->jumpkind == Ijk_Ret) {
    IRExpr* stack = Register(&maker, layout->offset_SP);
    Call(&maker, 1, "OnReturn", (void*)OnReturn, mkIRExprVec_1(stack), NULL);
  }
  return maker.block;
}

// --- the tool
// -------------------------------------------------------------------------------------

static Bool ReadOption(const HChar* argument) {
  return VG_STR_CLO(argument, "--out", option_out) ||
         VG_STR_CLO(argument, "--entry", option_entry) ||
         VG_BINT_CLO(argument, "--buffers", option_buffers, 1, 1 << 20) ||
         VG_BINT_CLO(argument, "--packets", option_packets, 0, 1LL << 40);
}

static void PrintUsage(void) {
  VG_(printf)
  ("    --out=FILE            where the recording goes; required\n"
   "    --entry=PATTERN       the function that works on a burst: its second argument is an array\n"
   "                          of mbufs, its third how many; * and ? [*::Process(*]\n"
   "    --buffers=N           packet buffers that are in use in turn [1024]\n"
   "    --packets=N           end the recording after about so many; 0: with the program [0]\n");
}

static void PrintDebugUsage(void) { VG_(printf)("    (none)\n"); }

static void AfterOptions(void) {
  if (option_out == NULL) Fail("--out=FILE is missing");
  out = VG_(fd_open)(option_out, VKI_O_CREAT | VKI_O_TRUNC | VKI_O_WRONLY, 0644);
  if (out < 0) Fail("the file that --out names cannot be written");
  filled = sizeof UNIS_RECORDING_MAGIC - 1;
  VG_(memcpy)(buffer, UNIS_RECORDING_MAGIC, filled);
}

static void AtEnd(Int exit_code) {
  (void)exit_code;
  Flush();
  VG_(close)(out);
  if (arrivals == 0) {
    VG_(umsg)("unis-refs: no packets: no function %s was called with some\n", option_entry);
  }
}

static void BeforeOptions(void) {
  VG_(details_name)("unis-refs");
  VG_(details_version)(NULL);
  VG_(details_description)("the cache lines that packet work touches");
  VG_(details_copyright_author)("The UNiS authors.");
  VG_(details_bug_reports_to)("the UNiS authors");
  VG_(details_avg_translation_sizeB)(400);
  VG_(basic_tool_funcs)(AfterOptions, Instrument, AtEnd);
  VG_(needs_command_line_options)(ReadOption, PrintUsage, PrintDebugUsage);
}

VG_DETERMINE_INTERFACE_VERSION(BeforeOptions)
