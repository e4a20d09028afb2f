/* The neural engine's private classes by their Apple names, over a real Objective-C runtime and GNUstep's Foundation.

   What the macOS backend calls and GCC's runtime does not have is here too: objc_msgSend, autorelease pools as functions,
   IOSurface. Models are compiled and run by three callbacks into Python. Compiled by the test that uses it. */

#import <Foundation/Foundation.h>
#include <objc/message.h>
#include <objc/runtime.h>
#include <stdlib.h>
#include <string.h>

/* A message with any arguments: find the method, restore the registers, go there. */
#if defined(__x86_64__)
__asm__(
    ".text\n.globl objc_msgSend\n.type objc_msgSend,@function\nobjc_msgSend:\n"
    "  pushq %rbp\n  movq %rsp, %rbp\n"
    "  pushq %rdi\n  pushq %rsi\n  pushq %rdx\n  pushq %rcx\n  pushq %r8\n  pushq %r9\n"
    "  call objc_msg_lookup@PLT\n  movq %rax, %r11\n"
    "  popq %r9\n  popq %r8\n  popq %rcx\n  popq %rdx\n  popq %rsi\n  popq %rdi\n"
    "  popq %rbp\n  jmp *%r11\n.size objc_msgSend,.-objc_msgSend\n");
#elif defined(__aarch64__)
__asm__(
    ".text\n.globl objc_msgSend\n.type objc_msgSend,%function\nobjc_msgSend:\n"
    "  stp x29, x30, [sp, #-96]!\n  mov x29, sp\n"
    "  stp x0, x1, [sp, #16]\n  stp x2, x3, [sp, #32]\n  stp x4, x5, [sp, #48]\n  stp x6, x7, [sp, #64]\n"
    "  str x8, [sp, #80]\n  bl objc_msg_lookup\n  mov x16, x0\n"
    "  ldp x0, x1, [sp, #16]\n  ldp x2, x3, [sp, #32]\n  ldp x4, x5, [sp, #48]\n  ldp x6, x7, [sp, #64]\n"
    "  ldr x8, [sp, #80]\n  ldp x29, x30, [sp], #96\n  br x16\n.size objc_msgSend,.-objc_msgSend\n");
#else
#error "objc_msgSend is written for x86-64 and aarch64"
#endif

Class engine_object_getClass(id thing) { return object_getClass(thing); }
void *objc_autoreleasePoolPush(void) { return [NSAutoreleasePool new]; }
void objc_autoreleasePoolPop(void *pool) { [(NSAutoreleasePool *)pool drain]; }
id objc_retain(id thing) { return [thing retain]; }
void objc_release(id thing) { [thing release]; }

/* ---- the callbacks ---- */

typedef struct {
    char name[256], type[16];
    int64_t extents[5], strides[4];
} Port;

typedef int64_t (*CompileCallback)(const char *directory, int64_t counts[2]);
typedef void (*DescribeCallback)(int64_t model, int64_t side, int64_t index, Port *port);
typedef int64_t (*RunCallback)(int64_t model, void **inputs, void **outputs);

static CompileCallback compileModel;
static DescribeCallback describePort;
static RunCallback runModel;
static int64_t compilations, budget, liveObjects;

void engine_set(CompileCallback compile, DescribeCallback describe, RunCallback run, int64_t limit) {
    compileModel = compile, describePort = describe, runModel = run, budget = limit, compilations = 0;
}
int64_t engine_live(void) { return liveObjects; }

static BOOL refused(NSError **error, NSInteger code, NSString *text) {
    if (error) {
        NSDictionary *info = [NSDictionary dictionaryWithObject: text forKey: NSLocalizedDescriptionKey];
        *error = [NSError errorWithDomain: @"com.apple.appleneuralengine" code: code userInfo: info];
    }
    return NO;
}

static void require(id thing, Class kind) {
    if (![thing isKindOfClass: kind])
        [NSException raise: NSInvalidArgumentException format: @"%@ is no %@", thing, kind];
}

/* Counts the objects of the classes below, to find leaks. */
@interface Counted : NSObject
@end
@implementation Counted
- (id) init { if ((self = [super init])) liveObjects++; return self; }
- (void) dealloc { liveObjects--; [super dealloc]; }
@end

/* ---- IOSurface ---- */

typedef struct __IOSurface *IOSurfaceRef;
NSString *kIOSurfaceWidth = @"IOSurfaceWidth", *kIOSurfaceHeight = @"IOSurfaceHeight";
NSString *kIOSurfaceBytesPerElement = @"IOSurfaceBytesPerElement", *kIOSurfaceBytesPerRow = @"IOSurfaceBytesPerRow";
NSString *kIOSurfaceAllocSize = @"IOSurfaceAllocSize", *kIOSurfacePixelFormat = @"IOSurfacePixelFormat";

@interface IOSurface : Counted { @public size_t size; char *memory; int locks; }
@end
@implementation IOSurface
- (void) dealloc { free(memory); [super dealloc]; }
@end

IOSurfaceRef IOSurfaceCreate(NSDictionary *properties) {
    IOSurface *made = [IOSurface new];
    made->size = [[properties objectForKey: kIOSurfaceAllocSize] unsignedLongLongValue];
    made->memory = calloc(1, made->size);
    return (IOSurfaceRef)made;
}
int IOSurfaceLock(IOSurfaceRef surface, uint32_t options, uint32_t *seed) {
    ((IOSurface *)surface)->locks++;
    return 0;
}
int IOSurfaceUnlock(IOSurfaceRef surface, uint32_t options, uint32_t *seed) {
    ((IOSurface *)surface)->locks--;
    return 0;
}
void *IOSurfaceGetBaseAddress(IOSurfaceRef surface) {
    return ((IOSurface *)surface)->locks ? ((IOSurface *)surface)->memory : NULL;
}
size_t IOSurfaceGetAllocSize(IOSurfaceRef surface) { return ((IOSurface *)surface)->size; }
void CFRelease(const void *thing) { [(id)thing release]; }

@interface _ANEIOSurfaceObject : Counted { @public IOSurface *surface; }
@end
@implementation _ANEIOSurfaceObject
+ (id) objectWithIOSurface: (IOSurfaceRef)surface {
    _ANEIOSurfaceObject *made = [[self new] autorelease];
    made->surface = [(IOSurface *)surface retain];
    return made;
}
- (void) dealloc { [surface release]; [super dealloc]; }
@end

/* ---- descriptor, request, model ---- */

@interface _ANEInMemoryModelDescriptor : Counted { @public NSData *text; NSDictionary *weights; }
@end
@implementation _ANEInMemoryModelDescriptor
+ (id) modelWithMILText: (NSData *)text weights: (NSDictionary *)weights optionsPlist: (id)options {
    require(text, [NSData class]), require(weights, [NSDictionary class]);
    _ANEInMemoryModelDescriptor *made = [[self new] autorelease];
    made->text = [text retain], made->weights = [weights retain];
    return made;
}
- (void) dealloc { [text release]; [weights release]; [super dealloc]; }
@end

@interface _ANERequest : Counted { @public NSArray *inputs, *inputIndices, *outputs, *outputIndices; }
@end
@implementation _ANERequest
+ (id) requestWithInputs: (NSArray *)inputs inputIndices: (NSArray *)inputIndices outputs: (NSArray *)outputs
           outputIndices: (NSArray *)outputIndices weightsBuffer: (id)weights perfStats: (id)statistics
          procedureIndex: (NSNumber *)procedure {
    _ANERequest *made = [[self new] autorelease];
    made->inputs = [inputs retain], made->inputIndices = [inputIndices retain];
    made->outputs = [outputs retain], made->outputIndices = [outputIndices retain];
    return made;
}
- (void) dealloc {
    [inputs release]; [inputIndices release]; [outputs release]; [outputIndices release];
    [super dealloc];
}
@end

@class _ANEProgramForEvaluation;

@interface _ANEInMemoryModel : Counted {
    _ANEInMemoryModelDescriptor *descriptor;
    NSString *identifier;
    int64_t number, counts[2];
    BOOL compiled, loaded;
    _ANEProgramForEvaluation *program;
}
- (BOOL) evaluateWithQoS: (unsigned)qos options: (NSDictionary *)options request: (_ANERequest *)request
                   error: (NSError **)error;
@end

@interface _ANEProgramForEvaluation : Counted
- (BOOL) processRequest: (id)request model: (_ANEInMemoryModel *)model qos: (unsigned)qos qIndex: (int)queue
          modelStringID: (id)string options: (id)options returnValue: (BOOL *)value error: (NSError **)error;
@end
@implementation _ANEProgramForEvaluation
- (BOOL) processRequest: (id)request model: (_ANEInMemoryModel *)model qos: (unsigned)qos qIndex: (int)queue
          modelStringID: (id)string options: (id)options returnValue: (BOOL *)value error: (NSError **)error {
    return *value = [model evaluateWithQoS: qos options: options request: request error: error];
}
@end

@implementation _ANEInMemoryModel
+ (id) inMemoryModelWithDescriptor: (_ANEInMemoryModelDescriptor *)descriptor {
    _ANEInMemoryModel *made = [[self new] autorelease];
    made->descriptor = [descriptor retain];
    made->identifier = [[NSString alloc] initWithFormat: @"%llx_%lu", (unsigned long long)[descriptor->text hash],
                        (unsigned long)[descriptor->weights count]];
    return made;
}
- (void) dealloc { [descriptor release]; [identifier release]; [program release]; [super dealloc]; }
- (NSString *) hexStringIdentifier { return identifier; }
- (NSString *) localModelPath { return [NSTemporaryDirectory() stringByAppendingPathComponent: identifier]; }
- (id) program { return program; }

- (BOOL) filesAreThere: (NSString *)directory {
    NSString *text = [directory stringByAppendingPathComponent: @"model.mil"];
    if (![[NSData dataWithContentsOfFile: text] isEqual: descriptor->text])
        return NO;
    NSEnumerator *keys = [descriptor->weights keyEnumerator];
    for (NSString *key = [keys nextObject]; key; key = [keys nextObject]) {
        NSString *path = [key stringByReplacingOccurrencesOfString: @"@model_path" withString: directory];
        NSData *data = [[descriptor->weights objectForKey: key] objectForKey: @"data"];
        require(data, [NSData class]);
        if (![[NSData dataWithContentsOfFile: path] isEqual: data])
            return NO;
    }
    return YES;
}

- (BOOL) compileWithQoS: (unsigned)qos options: (NSDictionary *)options error: (NSError **)error {
    require(options, [NSDictionary class]);
    NSString *directory = [self localModelPath];
    if (![self filesAreThere: directory])
        return refused(error, 1, @"_ANECompiler : InvalidMILProgram");
    if (compilations >= budget || (number = compileModel([directory UTF8String], counts)) < 0)
        return refused(error, 1, @"_ANECompiler : ANECCompile() FAILED");
    compilations++;
    [[NSData data] writeToFile: [directory stringByAppendingPathComponent: @"data"] atomically: NO];
    return compiled = YES;
}

- (BOOL) loadWithQoS: (unsigned)qos options: (NSDictionary *)options error: (NSError **)error {
    if (!compiled)
        return refused(error, 4, @"the model was not compiled");
    program = [_ANEProgramForEvaluation new];
    return loaded = YES;
}

- (BOOL) unloadWithQoS: (unsigned)qos error: (NSError **)error {
    if (!loaded)
        return refused(error, 4, @"the model is not loaded");
    loaded = NO;
    return YES;
}

- (NSDictionary *) modelAttributes {
    static const char *const extents[] = {"Batches", "Channels", "Depth", "Height", "Width"};
    static const char *const strides[] = {"BatchStride", "PlaneStride", "DepthStride", "RowStride"};
    NSMutableDictionary *network = [NSMutableDictionary dictionary];
    for (int side = 0; side < 2; side++) {
        NSMutableArray *list = [NSMutableArray array];
        for (int64_t index = 0; index < counts[side]; index++) {
            Port port;
            describePort(number, side, index, &port);
            NSMutableDictionary *entry = [NSMutableDictionary dictionary];
            [entry setObject: [NSString stringWithUTF8String: port.name] forKey: @"Symbol"];
            [entry setObject: [NSString stringWithUTF8String: port.type] forKey: @"Type"];
            for (int each = 0; each < 5; each++)
                [entry setObject: [NSNumber numberWithLongLong: port.extents[each]]
                          forKey: [NSString stringWithUTF8String: extents[each]]];
            for (int each = 0; each < 4; each++)
                [entry setObject: [NSNumber numberWithLongLong: port.strides[each]]
                          forKey: [NSString stringWithUTF8String: strides[each]]];
            [list addObject: entry];
        }
        [network setObject: list forKey: side ? @"LiveOutputList" : @"LiveInputList"];
    }
    return [NSDictionary dictionaryWithObject: [NSArray arrayWithObject: network] forKey: @"NetworkStatusList"];
}

/* The memory of the ports of one side, in their order; NO when a surface is missing, too small or locked. */
- (BOOL) collect: (void **)memory side: (int)side surfaces: (NSArray *)surfaces indices: (NSArray *)indices {
    if ([surfaces count] != (NSUInteger)counts[side] || [indices count] != [surfaces count])
        return NO;
    for (NSUInteger each = 0; each < [surfaces count]; each++) {
        int64_t index = [[indices objectAtIndex: each] longLongValue];
        IOSurface *surface = ((_ANEIOSurfaceObject *)[surfaces objectAtIndex: each])->surface;
        Port port;
        if (index < 0 || index >= counts[side])
            return NO;
        describePort(number, side, index, &port);
        if (surface->locks || surface->size < (size_t)(port.extents[0] * port.strides[0]))
            return NO;
        memory[index] = surface->memory;
    }
    return YES;
}

- (BOOL) evaluateWithQoS: (unsigned)qos options: (NSDictionary *)options request: (_ANERequest *)request
                   error: (NSError **)error {
    void *inputs[64], *outputs[64];
    if (!loaded || counts[0] > 64 || counts[1] > 64)
        return refused(error, 8, @"the model is not loaded");
    if (![self collect: inputs side: 0 surfaces: request->inputs indices: request->inputIndices]
        || ![self collect: outputs side: 1 surfaces: request->outputs indices: request->outputIndices]
        || runModel(number, inputs, outputs))
        return refused(error, 8, @"ANEProgramProcessRequestDirect() Failed with status=0x1d : Program Inference error");
    return YES;
}
@end

@interface _ANEClient : NSObject
@end
@implementation _ANEClient
+ (id) sharedConnection {
    static _ANEClient *shared;
    return shared ? shared : (shared = [self new]);
}
- (BOOL) evaluateRealTimeWithModel: (_ANEInMemoryModel *)model options: (id)options request: (id)request
                             error: (NSError **)error {
    return [model evaluateWithQoS: 0 options: options request: request error: error];
}
- (BOOL) doEvaluateDirectWithModel: (_ANEInMemoryModel *)model options: (id)options request: (id)request
                               qos: (unsigned)qos error: (NSError **)error {
    return [model evaluateWithQoS: qos options: options request: request error: error];
}
@end
