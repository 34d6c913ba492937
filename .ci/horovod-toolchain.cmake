# What lets Horovod 0.28.1 compile against torch >= 2.1 with no line of Horovod changed (handed over as the environment
# variable CMAKE_TOOLCHAIN_FILE, CMake >= 3.21).
#
# Horovod fixes the language at C++14 with set(CMAKE_CXX_STANDARD 14), which no -D and no CXXFLAGS can outvote; torch's
# headers need C++17. So the flag that CMake believes to mean "C++14" is made to say C++17. CMake overwrites those
# variables when it loads the compiler's description, after the toolchain file; the file named by
# CMAKE_USER_MAKE_RULES_OVERRIDE_CXX is read after that again, so this one names itself.
set(CMAKE_USER_MAKE_RULES_OVERRIDE_CXX "${CMAKE_CURRENT_LIST_FILE}")
foreach(year IN ITEMS 11 14)
  set(CMAKE_CXX${year}_STANDARD_COMPILE_OPTION -std=c++17)
  set(CMAKE_CXX${year}_EXTENSION_COMPILE_OPTION -std=gnu++17)
endforeach()

# Horovod builds RelWithDebInfo, by default -O2 -g, to which it adds -O3. On two cores -O1 without symbols takes 2 minutes
# instead of 8, and the wheel 1 MB instead of 18. The tests' tensors are small; a site with GPUs builds its own Horovod.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO_INIT "-O1 -DNDEBUG")

# Without CUDA and ROCm: where torch is their build and the toolkit (nvcc, /usr/local/cuda) is found, Horovod would demand all of
# it. It asks torch by `${PYTHON_EXECUTABLE} -c CODE`; for that code torch is a build without them.
if(DEFINED CACHE{PYTHON_EXECUTABLE})
  set(PYTHON_EXECUTABLE "$CACHE{PYTHON_EXECUTABLE}" -c "import sys, torch.version as v\nv.cuda = v.hip = None\nexec(sys.argv[2])")
endif()
set(CMAKE_CUDA_COMPILER NOTFOUND)
set(CMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit TRUE)
