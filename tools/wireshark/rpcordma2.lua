-- SPDX-License-Identifier: GPL-2.0
--
-- A dissector for Wireshark and tshark, from version 4.0 on: RPC-over-RDMA version two with its
-- optional operations, and the private data of the connection manager.
--
-- The documents are draft-cel-nfsv4-rpcrdma-version-two-01, draft-dnoveck-nfsv4-rpcrdma-xcharext-01
-- and RFC 8797. The second format of private data is described in Documentation/wire.rst, and the
-- installation in Documentation/wireshark.rst.
--
-- Wireshark's own dissector `rpcordma` keeps version one: it refuses every other version, and this
-- dissector refuses every version but two. Both are heuristic dissectors of the payload of
-- InfiniBand and RoCE packets, and of iWARP segments. Private data are shown by a postdissector,
-- because Wireshark offers no table of dissectors for those of iWARP.

local two = Proto("rpcordma2", "RPC-over-RDMA version two")
local cm = Proto("rpcordma_cm", "RPC-over-RDMA CM Private Data")

local MSG, NOMSG, ERROR, OPTIONAL = 0, 1, 4, 5
local PROCS = {
    [MSG] = "RDMA2_MSG", [NOMSG] = "RDMA2_NOMSG", [ERROR] = "RDMA2_ERROR",
    [OPTIONAL] = "RDMA2_OPTIONAL",
}
local CALL, REPLY = 0, 1
local DIRECTIONS = { [CALL] = "CALL", [REPLY] = "REPLY" }
local ERR_VERS = 1
local ERRORS = { [ERR_VERS] = "ERR_VERS", [2] = "BAD_HEADER", [3] = "INVAL_OPTION" }
local INIT, REQ, RESP, UPD = 1, 2, 3, 4
local OPTIONS = {
    [INIT] = "INIT_XCHAR", [REQ] = "REQ_XCHAR", [RESP] = "RESP_XCHAR", [UPD] = "UPD_XCHAR",
}
-- INIT_XCHAR and UPD_XCHAR have either direction.
local DIRECTION_OF = { [REQ] = CALL, [RESP] = REPLY }
local CHARACTERISTICS = {
    [1] = "Receive Buffer Size", [2] = "Requester Remote Invalidation",
    [3] = "Backward Request Support",
}
local FIRST_EXPERIMENTAL = 4294967040
-- An experimental one of this module. Others may use the number for something else.
local PREFERRED_THRESHOLD = 4294967221
local BOOL = { [0] = "false", [1] = "true" }
local SUPPORT = { [0] = "UNKNOWN", [1] = "NONE", [2] = "SZLIM", [3] = "GENL" }

-- The most bytes of read chunks for which zeros are put into an RPC message.
local SPLICED_MAX = 4 * 1024 * 1024

-- The most elements of a bit mask that are named: Wireshark cuts a line off after 240 characters.
local ELEMENTS_MAX = 32

-- Fields by the last part of their names.
local f = {}

-- Defines the fields of a protocol: name, type, label, and more arguments of ProtoField.
local function fields(proto, prefix, rows)
    local made = {}
    for n, row in ipairs(rows) do
        local name, kind, label = row[1], row[2], row[3]
        made[n] = ProtoField[kind](prefix .. "." .. name, label, row[4], row[5], row[6])
        f[name] = made[n]
    end
    proto.fields = made
end

fields(two, "rpcordma2", {
    { "xid", "uint32", "XID", base.HEX },
    { "version", "uint32", "Version" },
    { "credits", "uint32", "Credits" },
    { "proc", "uint32", "Message Type", base.DEC, PROCS },
    { "direction", "uint32", "Direction", base.DEC, DIRECTIONS },
    { "message_length", "uint32", "Message Length" },
    { "reads_count", "uint32", "Read Segments" },
    { "writes_count", "uint32", "Write Chunks" },
    { "reply_count", "uint32", "Reply Chunks" },
    { "position", "uint32", "Position in XDR" },
    { "segment_count", "uint32", "Segments" },
    { "rdma_handle", "uint32", "R_key", base.HEX },
    { "rdma_length", "uint32", "Length" },
    { "rdma_offset", "uint64", "Offset", base.HEX },
    { "errcode", "uint32", "Error", base.DEC, ERRORS },
    { "vers_low", "uint32", "Lowest Version" },
    { "vers_high", "uint32", "Highest Version" },
    { "opttype", "uint32", "Operation", base.DEC, OPTIONS },
    { "optinfo_length", "uint32", "Length of the Operation's Data" },
    { "optinfo", "bytes", "Data of an Unknown Operation" },
    { "payload", "bytes", "Part of an RPC Message" },
    { "part", "bytes", "Part of a Message" },
    { "xchar_count", "uint32", "Characteristics" },
    { "xchar_which", "uint32", "Characteristic" },
    { "xchar_length", "uint32", "Length of the Value" },
    { "xchar_data", "bytes", "Value" },
    { "receive_size", "uint32", "Receive Buffer Size" },
    { "invalidation", "uint32", "Requester Remote Invalidation", base.DEC, BOOL },
    { "backward", "uint32", "Backward Request Support", base.DEC, SUPPORT },
    { "preferred", "uint32", "Preferred Threshold, if of rpcrdma" },
    { "nochg", "uint32", "Not Expected to Change", base.HEX },
    { "done", "uint32", "Done", base.HEX },
    { "rejected", "uint32", "Rejected", base.HEX },
    { "pending", "uint32", "Pending", base.HEX },
    { "pendclr", "uint32", "No Longer Pending", base.DEC, BOOL },
})

fields(cm, "rpcordma_cm", {
    { "magic", "uint32", "Format Identifier", base.HEX },
    { "format", "uint8", "Format Version" },
    { "r", "uint8", "Remote Invalidation", base.DEC, BOOL, 0x01 },
    { "send_size", "uint32", "Send Size" },
    { "recv_size", "uint32", "Receive Size" },
    { "versions_magic", "uint32", "Format Identifier", base.HEX },
    { "versions_format", "uint8", "Format Version" },
    { "s", "uint8", "Sizes Hold in Version Two", base.DEC, BOOL, 0x01 },
    { "low", "uint8", "Lowest Version of RPC-over-RDMA" },
    { "high", "uint8", "Highest Version of RPC-over-RDMA" },
})

local malformed = ProtoExpert.new(
    "rpcordma2.malformed", "Malformed message", expert.group.MALFORMED, expert.severity.ERROR)
local breach = ProtoExpert.new(
    "rpcordma2.breach", "Breach of the protocol", expert.group.PROTOCOL, expert.severity.WARN)
two.experts = { malformed, breach }

-- What other dissectors have found in the same frame.
local opcode = Field.new("infiniband.bth.opcode")
local queue = Field.new("infiniband.bth.destqp")
local sequence = Field.new("infiniband.bth.psn")
local padding = Field.new("infiniband.bth.padcnt")
local rdmap_opcode = Field.new("iwarp_rdma.opcode")
local private_data = {
    Field.new("infiniband.cm.req.ip_cm.private"),
    Field.new("infiniband.cm.rep.private"),
    Field.new("iwarp_mpa.privatedata"),
}

-- Returns the value that was found last. A frame of iWARP may have several. It is nil when
-- Wireshark dissects a file for the first time without a filter, because there are no fields then.
local function latest(extractor)
    local all = { extractor() }
    return all[#all] and all[#all].value
end

-- Reading ---------------------------------------------------------------------------------------

-- A place in a message. Reading beyond the end raises a table with the text of the fault.
local Cursor = {}
Cursor.__index = Cursor

-- Returns a cursor at the start of a range, which ends after `length` bytes.
local function cursor(range, length)
    return setmetatable({ range = range, at = 0, stop = length }, Cursor)
end

local function fault(text)
    error({ text = text })
end

function Cursor:left()
    return self.stop - self.at
end

-- Returns the next bytes, or fewer if there are fewer, to be marked in the tree.
function Cursor:peek(count)
    local length = math.min(count, self:left())
    return length > 0 and self.range:range(self.at, length) or self.range
end

function Cursor:take(count)
    if count > self:left() then
        fault(string.format("%d bytes needed, %d left", count, self:left()))
    end
    local taken = self.range:range(self.at, count)
    self.at = self.at + count
    return taken
end

-- Reads a word and adds it to the tree. Returns its value.
function Cursor:word(tree, name)
    local range = self:take(4)
    local item = tree:add(f[name], range)
    return range:uint(), item
end

-- Reads a word that must be 0 or 1.
function Cursor:flag()
    local value = self:take(4):uint()
    if value > 1 then
        fault(string.format("0x%08x where 0 or 1 must be", value))
    end
    return value == 1
end

-- Reads opaque data with a length that was read before, and their padding. Nil without data.
function Cursor:opaque(length)
    local data = length > 0 and self:take(length) or nil
    if length % 4 > 0 then
        self:take(4 - length % 4)
    end
    return data
end

-- Chunk lists -----------------------------------------------------------------------------------

local function segment(c, tree)
    local item = tree:add(c:peek(16), "Segment")
    local handle = c:word(item, "rdma_handle")
    local length = c:word(item, "rdma_length")
    local offset = c:take(8)
    item:add(f.rdma_offset, offset)
    item:set_text(string.format(
        "Segment: R_key 0x%08x, %d bytes at 0x%s", handle, length, offset:bytes():tohex(true)))
    return length
end

local function read_list(c, tree)
    local list = tree:add(c:peek(4), "Read List")
    local reads = {}
    while c:flag() do
        local position = c:word(list, "position")
        reads[#reads + 1] = { position = position, length = segment(c, list) }
    end
    list:add(f.reads_count, #reads):set_generated()
    list:append_text(string.format(": %d segments", #reads))
    return reads
end

local function chunk(c, tree, name)
    local item = tree:add(c:peek(4), name)
    local count = c:word(item, "segment_count")
    local sum = 0
    for _ = 1, count do
        sum = sum + segment(c, item)
    end
    item:append_text(string.format(": %d segments, %d bytes", count, sum))
end

local function write_list(c, tree)
    local list = tree:add(c:peek(4), "Write List")
    local count = 0
    while c:flag() do
        count = count + 1
        chunk(c, list, "Write Chunk")
    end
    list:add(f.writes_count, count):set_generated()
    list:append_text(string.format(": %d chunks", count))
end

local function reply_chunk(c, tree)
    local list = tree:add(c:peek(4), "Reply Chunk")
    local present = c:flag()
    if present then
        chunk(c, list, "Chunk")
    end
    list:add(f.reply_count, present and 1 or 0):set_generated()
    list:append_text(present and "" or ": none")
end

-- Characteristics -------------------------------------------------------------------------------

local function name_of(which)
    if CHARACTERISTICS[which] then
        return CHARACTERISTICS[which]
    end
    return which >= FIRST_EXPERIMENTAL and "experimental" or "unknown"
end

-- Adds the value of a characteristic by the type that belongs to its id. Returns a text.
local function value_of(tree, which, data)
    if which == PREFERRED_THRESHOLD and data and data:len() == 4 then
        tree:add(f.preferred, data)
    end
    if not CHARACTERISTICS[which] then
        if data then
            tree:add(f.xchar_data, data)
        end
        return data and data:bytes():tohex(true) or "no data"
    end
    if not data or data:len() ~= 4 then
        fault(string.format("value of %s has %d bytes", name_of(which), data and data:len() or 0))
    end
    local value = data:uint()
    if which == 1 then
        tree:add(f.receive_size, data)
        return value .. " bytes"
    elseif which == 2 and value <= 1 then
        tree:add(f.invalidation, data)
        return value == 1 and "true" or "false"
    elseif which == 3 and SUPPORT[value] then
        tree:add(f.backward, data)
        return SUPPORT[value]
    end
    return fault(string.format("%d is no value of %s", value, name_of(which)))
end

local function characteristic(c, tree)
    local item = tree:add(c:peek(8), "Characteristic")
    local which, id = c:word(item, "xchar_which")
    id:append_text(" (" .. name_of(which) .. ")")
    local length = c:word(item, "xchar_length")
    local data = c:opaque(length)
    item:set_text(string.format("Characteristic %d, %s", which, name_of(which)))
    item:append_text(": " .. value_of(item, which, data))
end

local function characteristics(c, tree)
    local count = c:word(tree, "xchar_count")
    for _ = 1, count do
        characteristic(c, tree)
    end
end

-- Reads a bit mask over the elements of a list of characteristics.
local function subset(c, tree, name, label)
    local range = c:take(4)
    local count, found, elements = range:uint(), 0, {}
    for word = 0, count - 1 do
        local mask = c:word(tree, name)
        for bit = 0, 31 do
            if math.floor(mask / 2 ^ bit) % 2 == 1 then
                found = found + 1
                if found <= ELEMENTS_MAX then
                    elements[found] = string.format("%d", word * 32 + bit)
                end
            end
        end
    end
    local shown = found > 0 and table.concat(elements, ", ") or "none"
    local part = found > ELEMENTS_MAX and string.format(", first %d of %d", #elements, found) or ","
    tree:add(range, label .. part .. " elements: " .. shown):set_generated()
end

local OPERATIONS = {
    [INIT] = function(c, tree)
        characteristics(c, tree)
        subset(c, tree, "nochg", "Not expected to change")
    end,
    [REQ] = characteristics,
    [RESP] = function(c, tree)
        subset(c, tree, "done", "Done")
        subset(c, tree, "rejected", "Rejected")
        subset(c, tree, "pending", "Pending")
    end,
    [UPD] = function(c, tree)
        characteristic(c, tree)
        local range = c:peek(4)
        c:flag()
        tree:add(f.pendclr, range)
    end,
}

-- Message types ---------------------------------------------------------------------------------

-- Returns a Tvb of the RPC message. Zeros stand for the data in read chunks.
local function unreduced(range, reads)
    local total = 0
    for _, read in ipairs(reads) do
        total = total + read.length
    end
    if total == 0 or total > SPLICED_MAX then
        return range:tvb()
    end
    local raw, out, at, long = range:raw(), {}, 0, 0
    local function put(text)
        out[#out + 1] = text
        long = long + #text
    end
    -- Padding behind the data of a chunk is not sent.
    local function pad()
        put(string.rep("\0", -long % 4))
    end
    for _, read in ipairs(reads) do
        if read.position > long then
            pad()
            local inline = raw:sub(at + 1, at + math.max(0, read.position - long))
            at = at + #inline
            put(inline)
        end
        put(string.rep("\0", read.length))
    end
    pad()
    put(raw:sub(at + 1))
    local bytes = ByteArray.new(table.concat(out), true)
    return bytes:tvb("RPC message, zeros for the data in read chunks")
end

local function rpc_message(m, range, reads)
    if range:len() < 8 then
        m.tree:add_proto_expert_info(breach, "no RPC message")
        return
    end
    if range:range(0, 4):uint() ~= m.xid then
        m.tree:add_proto_expert_info(breach, "XID of the RPC message differs")
    end
    if range:range(4, 4):uint() ~= m.direction then
        m.tree:add_proto_expert_info(breach, "direction of the RPC message differs")
    end
    local tvb = unreduced(range, reads)
    -- The dissector marks a malformed message by itself, and raises an error here.
    pcall(function()
        Dissector.get("rpc"):call(tvb, m.pinfo, m.root)
    end)
end

local function direction(c, m)
    m.direction = c:word(m.tree, "direction")
    m.info = m.info .. " " .. DIRECTIONS[m.direction]
end

-- Notes bytes behind a message that ends with its header.
local function no_more(c, m)
    if c:left() > 0 then
        m.tree:add_proto_expert_info(breach, c:left() .. " bytes behind the message")
    end
end

local function with_lists(c, m)
    direction(c, m)
    local reads = read_list(c, m.tree)
    write_list(c, m.tree)
    reply_chunk(c, m.tree)
    m.header = c.at
    if m.proc == NOMSG then
        no_more(c, m)
    elseif c:left() == 0 then
        m.tree:add_proto_expert_info(breach, "no RPC message")
    else
        m.rpc = function()
            rpc_message(m, c.range:range(c.at, c:left()), reads)
        end
    end
end

local function error_message(c, m)
    local code = c:word(m.tree, "errcode")
    m.info = m.info .. " " .. ERRORS[code]
    if code == ERR_VERS then
        local low = c:word(m.tree, "vers_low")
        local high = c:word(m.tree, "vers_high")
        m.info = string.format("%s %d to %d", m.info, low, high)
    end
    no_more(c, m)
end

local function operation(c, m, opttype, data)
    local name = OPTIONS[opttype]
    local inner = cursor(data or c.range, data and data:len() or 0)
    OPERATIONS[opttype](inner, m.tree:add(inner.range, name))
    if inner:left() > 0 then
        fault(inner:left() .. " bytes behind the data of " .. name)
    end
    if DIRECTION_OF[opttype] and DIRECTION_OF[opttype] ~= m.direction then
        m.tree:add_proto_expert_info(breach, name .. " in the other direction")
    end
    no_more(c, m)
end

local function optional(c, m)
    direction(c, m)
    local opttype = c:word(m.tree, "opttype")
    m.info = m.info .. " " .. (OPTIONS[opttype] or "operation " .. opttype)
    local length = c:word(m.tree, "optinfo_length")
    local data = c:opaque(length)
    if OPERATIONS[opttype] then
        operation(c, m, opttype, data)
    elseif data then
        m.tree:add(f.optinfo, data)
    end
    if c:left() > 0 then
        m.tree:add(f.payload, c:take(c:left()))
    end
end

local BODIES = {
    [MSG] = with_lists, [NOMSG] = with_lists, [ERROR] = error_message, [OPTIONAL] = optional,
}

-- Returns whether the bytes can be a message of version two. A direction or an error that does not
-- exist belongs to another protocol, or to a later draft of this one.
local function plausible(tvb)
    if tvb:len() < 20 or tvb(4, 4):uint() ~= 2 then
        return false
    end
    local proc, word = tvb(12, 4):uint(), tvb(16, 4):uint()
    if proc == ERROR then
        return ERRORS[word] ~= nil
    elseif tvb:len() < 28 or not PROCS[proc] or not DIRECTIONS[word] then
        return false
    elseif proc == OPTIONAL then
        return tvb(24, 4):uint() <= tvb:reported_len() - 28
    end
    return tvb:reported_len() >= 32 and tvb(20, 4):uint() <= 1
end

-- Dissects a whole message.
local function message(tvb, pinfo, root)
    local m = { pinfo = pinfo, root = root, tree = root:add(two, tvb()) }
    local c = cursor(tvb(), tvb:len())
    m.xid = c:word(m.tree, "xid")
    c:word(m.tree, "version")
    local credits = c:word(m.tree, "credits")
    m.proc = c:word(m.tree, "proc")
    m.tree:add(f.message_length, tvb:reported_len()):set_generated()
    m.info = PROCS[m.proc]
    local ok, err = pcall(BODIES[m.proc], c, m)
    if not ok and type(err) ~= "table" then
        error(err, 0)
    elseif not ok then
        m.tree:add_proto_expert_info(malformed, err.text)
        m.info = m.info .. " [malformed]"
    end
    m.tree:append_text(", " .. m.info)
    pinfo.cols.protocol:set("RPCoRDMA2")
    pinfo.cols.info:set(string.format("%s XID 0x%08x, credits %d", m.info, m.xid, credits))
    if ok and m.rpc then
        m.tree:set_len(m.header)
        m.rpc()
    end
end

-- Messages in several packets of InfiniBand -----------------------------------------------------

-- Messages that have begun, by stream; and for each packet that was seen, what it completed.
local begun, seen = {}, {}

-- Takes a packet of a message in several packets. `place.follows` is the sequence number of the
-- packet behind it. Returns what the packet completes, or true for another part; or false.
local function assemble(place, tvb)
    local open = begun[place.stream]
    if place.first then
        open = plausible(tvb) and { bytes = ByteArray.new(), count = 0 } or nil
        begun[place.stream] = open
    elseif open and open.follows ~= place.sequence then
        return false
    end
    if not open then
        return false
    end
    open.bytes:append(tvb:bytes())
    open.count = open.count + 1
    open.follows = place.follows
    if not place.last then
        return true
    end
    begun[place.stream] = nil
    return open
end

local function part(place, tvb, pinfo, root)
    local key = string.format("%d %s %d", pinfo.number, place.stream, place.sequence)
    if seen[key] == nil then
        seen[key] = assemble(place, tvb)
    end
    local found = seen[key]
    if not found then
        return false
    end
    local item = root:add(two, tvb(), "RPC-over-RDMA version two, part of a message")
    item:add(f.part, tvb())
    if found ~= true then
        item:append_text(string.format(", the last of %d", found.count))
        message(found.bytes:tvb("RPC-over-RDMA message"), pinfo, root)
    end
    return true
end

-- Sends of the reliable connected service, with immediate data and invalidation as well.
local FIRST_PARTS, MIDDLE_PARTS = { [0x00] = true }, { [0x01] = true }
local LAST_PARTS = { [0x02] = true, [0x03] = true, [0x16] = true }
local WHOLE = { [0x04] = true, [0x05] = true, [0x17] = true }

local function whole(tvb, pinfo, root)
    local found = plausible(tvb)
    if found then
        message(tvb, pinfo, root)
    end
    return found
end

-- Returns the payload of a packet without its padding, which Wireshark leaves in.
local function unpadded(tvb)
    local count = latest(padding) or 0
    return count > 0 and count < tvb:len() and tvb(0, tvb:len() - count):tvb() or tvb
end

local function infiniband(packet, pinfo, root)
    local code, tvb = latest(opcode), unpadded(packet)
    if code == nil or WHOLE[code] then
        return whole(tvb, pinfo, root)
    end
    local first, last = FIRST_PARTS[code], LAST_PARTS[code]
    if not (first or last or MIDDLE_PARTS[code]) then
        return false
    end
    local number = latest(sequence)
    local place = { first = first, last = last, sequence = number }
    place.stream = string.format("%s %s %d", pinfo.src, pinfo.dst, latest(queue))
    place.follows = (number + 1) % 2 ^ 24
    return part(place, tvb, pinfo, root)
end

-- Sends of RDMAP, which Wireshark puts together from their segments.
local RDMAP_SENDS = { [3] = true, [4] = true, [5] = true, [6] = true }

local function iwarp(tvb, pinfo, root)
    local code = latest(rdmap_opcode)
    return (code == nil or RDMAP_SENDS[code] or false) and whole(tvb, pinfo, root)
end

function two.init()
    begun, seen = {}, {}
end

function two.dissector(tvb, pinfo, root)
    if not whole(tvb, pinfo, root) then
        return 0
    end
    return tvb:len()
end

two:register_heuristic("infiniband.payload", infiniband)
two:register_heuristic("iwarp_ddp_rdmap", iwarp)

-- Private data ----------------------------------------------------------------------------------

local MAGIC, VERSIONS_MAGIC = 0xf6ab0e18, 0xb542a32c

-- Returns the eight bytes of the first format with this identifier for which `valid` holds, and
-- their offset. Other layers' data may stand before them.
local function find(range, from, magic, valid)
    for at = from, range:len() - 8 do
        local here = range:range(at, 8)
        if here:range(0, 4):uint() == magic and here:range(4, 1):uint() == 1 and valid(here) then
            return here, at
        end
    end
    return nil
end

local function size(tree, name, range)
    local bytes = (range:uint() + 1) * 1024
    tree:add(f[name], range, bytes)
    return bytes
end

local function versions(tree, range)
    local item = tree:add(cm, range, "Supported Versions")
    item:add(f.versions_magic, range:range(0, 4))
    item:add(f.versions_format, range:range(4, 1))
    if range:range(5, 1):uint() % 2 == 1 then
        item:add(f.s, range:range(5, 1))
    end
    item:add(f.low, range:range(6, 1))
    item:add(f.high, range:range(7, 1))
    local low, high = range:range(6, 1):uint(), range:range(7, 1):uint()
    tree:append_text(string.format(", versions %d to %d", low, high))
end

local function announced(range, root)
    local first, at = find(range, 0, MAGIC, function() return true end)
    if not first then
        return
    end
    local tree = root:add(cm, first)
    tree:add(f.magic, first:range(0, 4))
    tree:add(f.format, first:range(4, 1))
    tree:add(f.r, first:range(5, 1))
    local send = size(tree, "send_size", first:range(6, 1))
    local receive = size(tree, "recv_size", first:range(7, 1))
    tree:append_text(string.format(", send %d, receive %d", send, receive))
    local second = find(range, at + 8, VERSIONS_MAGIC, function(here)
        local low, high = here:range(6, 1):uint(), here:range(7, 1):uint()
        return 0 < low and low <= high
    end)
    if second then
        versions(tree, second)
    end
end

function cm.dissector(_, _, root)
    for _, extractor in ipairs(private_data) do
        for _, found in ipairs({ extractor() }) do
            announced(found.range, root)
        end
    end
end

register_postdissector(cm)
