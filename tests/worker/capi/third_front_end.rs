//! A front end for Rust, written from lockstep.h alone: a small safe binding, and a job of two
//! ranks with a miss, a hit and a divergence. A front end would keep the programs that it builds,
//! by frame and entry; this one has none to run. Exits with 0 if all is as expected.

use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::{process::exit, ptr};

macro_rules! opaque { ($($name:ident)*) => { $(#[repr(C)] struct $name { _opaque: [u8; 0] })* } }
opaque!(RawReport RawGroup RawObservation RawDecision RawAgreement RawBuilt);
#[repr(C)]
struct Fingerprint { high: u64, low: u64 }
type Text = *const c_char;
type RawBuild = extern "C" fn(context: *mut c_void, entry: c_int, decision: *const RawDecision,
                              program: *mut Fingerprint, built: *mut RawBuilt) -> c_int;

#[link(name = "lockstep")]
extern "C" {
    fn lockstep_abi() -> c_int;
    fn lockstep_code_name(code: c_int) -> Text;
    fn lockstep_exit_code(code: c_int) -> c_int;
    fn lockstep_last_error() -> *const RawReport;
    fn lockstep_report_message(report: *const RawReport) -> Text;
    fn lockstep_report_rows(report: *const RawReport) -> usize;
    fn lockstep_report_ranks(report: *const RawReport, row: usize) -> Text;
    fn lockstep_report_value(report: *const RawReport, row: usize) -> Text;
    fn lockstep_group_open(comm: *const c_void, deadline_seconds: f64, report_folder: Text,
                           group: *mut *mut RawGroup) -> c_int;
    fn lockstep_group_rank(group: *const RawGroup) -> c_int;
    fn lockstep_group_size(group: *const RawGroup) -> c_int;
    fn lockstep_settle(group: *mut RawGroup) -> c_int;
    fn lockstep_finish(group: *mut RawGroup) -> c_int;
    fn lockstep_group_close(group: *mut RawGroup);
    fn lockstep_observation_create(observation: *mut *mut RawObservation) -> c_int;
    fn lockstep_observation_free(observation: *mut RawObservation);
    fn lockstep_dtype_from_name(name: Text) -> c_int;
    fn lockstep_observe_tensor(observation: *mut RawObservation, name: Text, dtype: c_int,
                               ndim: usize, source: *mut usize) -> c_int;
    fn lockstep_set_all(observation: *mut RawObservation, values: *const i64,
                        count: usize) -> c_int;
    fn lockstep_decision_dim(decision: *const RawDecision, source: usize, dim: usize,
                             is_symbol: *mut c_int, value: *mut i64) -> c_int;
    fn lockstep_decision_symbol_source(decision: *const RawDecision, symbol: usize) -> Text;
    fn lockstep_decision_text(decision: *const RawDecision) -> Text;
    fn lockstep_agreement_create(group: *mut RawGroup, name: Text, config: *const c_void,
                                 agreement: *mut *mut RawAgreement) -> c_int;
    fn lockstep_agreement_free(agreement: *mut RawAgreement);
    fn lockstep_fingerprint_of(bytes: *const c_void, length: usize) -> Fingerprint;
    fn lockstep_build_failed(built: *mut RawBuilt, code: c_int, text: Text);
    fn lockstep_agree(agreement: *mut RawAgreement, frame: Text, observation: *const RawObservation,
                      build: RawBuild, context: *mut c_void, entry: *mut c_int,
                      is_new: *mut c_int, decision: *mut *const RawDecision) -> c_int;
}
const FRAME_MISMATCH: c_int = 2;
const COMPILE_ERROR: c_int = 14;
const BAD_INPUT: c_int = 19;

/// A copy of a text of the library; empty for NULL.
fn copied(text: Text) -> String {
    if text.is_null() { return String::new(); }
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
/// A text for the library, in which a zero byte would be the end.
fn given(text: &str) -> CString { CString::new(text.replace('\0', " ")).unwrap() }

/// Code and message of a failure, and which ranks have which value.
#[derive(Debug)]
struct Error { code: c_int, message: String, rows: Vec<(String, String)> }
/// The error of a function that returned `code`, copied before the next failure replaces it.
fn checked(code: c_int) -> Result<(), Error> {
    if code == 0 { return Ok(()); }
    unsafe {
        let report = lockstep_last_error();
        let row = |at| (copied(lockstep_report_ranks(report, at)),
                        copied(lockstep_report_value(report, at)));
        Err(Error { code, message: copied(lockstep_report_message(report)),
                    rows: (0..lockstep_report_rows(report)).map(row).collect() })
    }
}
fn made<T>(make: impl FnOnce(&mut *mut T) -> c_int) -> Result<*mut T, Error> {
    let mut handle = ptr::null_mut();
    checked(make(&mut handle)).map(|()| handle)
}

/// The ranks that agree. If it is dropped before finish(), the other ranks get GONE.
struct Group(*mut RawGroup);
impl Group {
    fn open(deadline: f64) -> Result<Group, Error> {
        let comm = ptr::null();
        Ok(Group(made(|to| unsafe { lockstep_group_open(comm, deadline, ptr::null(), to) })?))
    }
    fn rank(&self) -> usize { unsafe { lockstep_group_rank(self.0) as usize } }
    fn size(&self) -> usize { unsafe { lockstep_group_size(self.0) as usize } }
    fn settle(&self) -> Result<(), Error> { checked(unsafe { lockstep_settle(self.0) }) }
    fn finish(&self) -> Result<(), Error> { checked(unsafe { lockstep_finish(self.0) }) }
}
impl Drop for Group { fn drop(&mut self) { unsafe { lockstep_group_close(self.0) } } }

/// One rank's view of the inputs of a call.
struct Observation(*mut RawObservation);
impl Observation {
    fn new() -> Result<Observation, Error> {
        Ok(Observation(made(|to| unsafe { lockstep_observation_create(to) })?))
    }
    fn tensor(&mut self, name: &str, dtype: &str, ndim: usize) -> Result<(), Error> {
        let dtype = unsafe { lockstep_dtype_from_name(given(dtype).as_ptr()) };
        let (name, source) = (given(name), ptr::null_mut());
        checked(unsafe { lockstep_observe_tensor(self.0, name.as_ptr(), dtype, ndim, source) })
    }
    /// The sizes of all tensors, in the order of their declarations.
    fn set(&mut self, sizes: &[i64]) -> Result<(), Error> {
        checked(unsafe { lockstep_set_all(self.0, sizes.as_ptr(), sizes.len()) })
    }
}
impl Drop for Observation { fn drop(&mut self) { unsafe { lockstep_observation_free(self.0) } } }

#[derive(Debug, PartialEq)]
enum Size { Static(i64), Symbol(String) }
/// The sizes of the version to build, for the time of the build.
struct Decision(*const RawDecision);
impl Decision {
    fn text(&self) -> String { copied(unsafe { lockstep_decision_text(self.0) }) }
    fn size(&self, source: usize, dim: usize) -> Result<Size, Error> {
        let (mut is_symbol, mut value) = (0, 0);
        checked(unsafe {
            lockstep_decision_dim(self.0, source, dim, &mut is_symbol, &mut value)
        })?;
        if is_symbol == 0 { return Ok(Size::Static(value)); }
        let from = unsafe { lockstep_decision_symbol_source(self.0, value as usize) };
        Ok(Size::Symbol(copied(from)))
    }
}

/// What all ranks run in a call; `entry` is None beyond the limit.
#[derive(Debug, PartialEq)]
struct Step { entry: Option<i32>, is_new: bool, decision: String }
/// The versions of the functions of one group.
struct Agreement(*mut RawAgreement);
impl Agreement {
    fn new(group: &Group, name: &str) -> Result<Agreement, Error> {
        let (name, config) = (given(name), ptr::null());
        Ok(Agreement(made(|to| unsafe {
            lockstep_agreement_create(group.0, name.as_ptr(), config, to)
        })?))
    }
    /// `build` returns the text of the program, or the reason why there is none.
    fn agree<B>(&self, frame: &str, inputs: &Observation, mut build: B) -> Result<Step, Error>
    where B: FnMut(i32, &Decision) -> Result<String, String> {
        let (mut entry, mut is_new, mut decision) = (-1, 0, ptr::null());
        let context = &mut build as *mut B as *mut c_void;
        checked(unsafe {
            lockstep_agree(self.0, given(frame).as_ptr(), inputs.0, run_build::<B>, context,
                           &mut entry, &mut is_new, &mut decision)
        })?;
        let decision = if decision.is_null() { String::new() } else { Decision(decision).text() };
        Ok(Step { entry: (entry >= 0).then_some(entry), is_new: is_new != 0, decision })
    }
}
impl Drop for Agreement { fn drop(&mut self) { unsafe { lockstep_agreement_free(self.0) } } }

/// Runs the closure given to agree(). A panic of it is a failed build, and does not reach C.
extern "C" fn run_build<B>(build: *mut c_void, entry: c_int, decision: *const RawDecision,
                           program: *mut Fingerprint, built: *mut RawBuilt) -> c_int
where B: FnMut(i32, &Decision) -> Result<String, String> {
    let build = unsafe { &mut *(build as *mut B) };
    let made = catch_unwind(AssertUnwindSafe(|| build(entry, &Decision(decision))))
        .unwrap_or_else(|_| Err("the build panicked".to_string()));
    match made {
        Ok(text) => unsafe {
            *program = lockstep_fingerprint_of(text.as_ptr().cast(), text.len());
            0
        },
        Err(reason) => unsafe {
            lockstep_build_failed(built, COMPILE_ERROR, given(&reason).as_ptr());
            1
        },
    }
}

fn job() -> Result<(), Error> {
    let group = Group::open(20.0)?;
    assert_eq!(group.size(), 2);
    let rank = group.rank();
    let agreement = Agreement::new(&group, "third front end")?;
    let mut inputs = Observation::new()?;
    inputs.tensor("tokens", "f32", 2)?;

    // A miss: the sizes of the ranks differ, so the version has a symbol.
    let mut builds = 0;
    inputs.set(&[[5, 7][rank], 16])?;
    let miss = agreement.agree("encode", &inputs, |entry, decision| {
        builds += 1;
        assert_eq!(entry, 0);
        assert_eq!(decision.size(0, 0).unwrap(), Size::Symbol("tokens.size(0)".to_string()));
        assert_eq!(decision.size(0, 1).unwrap(), Size::Static(16));
        Ok(decision.text())
    })?;
    assert_eq!((miss.entry, miss.is_new, builds), (Some(0), true, 1));
    assert!(miss.decision.starts_with("tokens: f32[s0, 16] | s0 = tokens.size(0) min 2 hint "));

    // A hit: the same version serves other sizes.
    let no_build = |_, _: &Decision| Err("this call needs no build".to_string());
    inputs.set(&[[40, 2][rank], 16])?;
    let hit = agreement.agree("encode", &inputs, no_build)?;
    assert_eq!(hit, Step { is_new: false, ..miss });

    // A divergence: the ranks call different functions, and the error has both.
    let error = agreement.agree(["encode", "decode"][rank], &inputs, no_build).unwrap_err();
    assert_eq!(error.code, FRAME_MISMATCH);
    let row = |rank: &str, frame: &str| (rank.to_string(), frame.to_string());
    assert_eq!(error.rows, [row("0", "encode"), row("1", "decode")]);

    // The next call works. Its program is the error, so it fails if the ranks have different ones.
    let next = agreement.agree("compare", &inputs, |_, _| Ok(format!("{error:?}")))?;
    assert_eq!((next.entry, next.is_new), (Some(0), true));
    group.settle()?;
    group.finish()?;

    // Handles are freed in any order; an agreement outlives its group, but makes no calls.
    drop(group);
    let late = agreement.agree("encode", &inputs, no_build).unwrap_err();
    assert_eq!(late.code, BAD_INPUT);
    println!("rank {rank}: {}; {}", hit.decision, error.message);
    Ok(())
}

fn main() {
    assert_eq!(unsafe { lockstep_abi() }, 1);
    if let Err(error) = job() {
        let name = copied(unsafe { lockstep_code_name(error.code) });
        eprintln!("{name}: {} {:?}", error.message, error.rows);
        exit(unsafe { lockstep_exit_code(error.code) });
    }
}
